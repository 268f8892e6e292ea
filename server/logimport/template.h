// What a line says, written as the line itself with holes in it.
//
//   Gradient overflow.{ws}Skipping step,[[ loss scaler {scaler}]] reducing loss scale to {scale_after}
//
//   {field}   a number, into that field of the reading (fields.h); thousands separators are understood. A counter must be
//   whole.
//   {_}       a number that is not kept
//   {ws}      any blanks and tabs, or none
//   {tensor}  text up to what follows in the template, into Reading::tensor; {detail} likewise
//   {...}     any text (at most 256 bytes) up to what follows in the template, not kept
//   [[ ]]     may be missing. Not nested.
// All else stands for itself, in this case of letters. A template begins with at least four literal bytes (its anchor), and
// text holes are followed by literal text or end the line. Matching is linear and allocates only for kept text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/logimport/fields.h"
#include "server/logimport/reading.h"

namespace scalewatch::logimport {

class Template {
 public:
  // Throws std::logic_error for a template that breaks the rules above: a mistake of the programmer.
  explicit Template(std::string_view source);

  // The literal text that it begins with.
  std::string_view anchor() const { return anchor_; }

  // What a match found: views into the text.
  class Match {
   public:
    std::size_t end() const { return end_; }
    // Fills the reading. False where a number can't be what the template says (a fractional step): no match then.
    bool apply(Reading& reading) const;

   private:
    friend class Template;
    struct Found {
      SetField set = nullptr;
      Number number;
      std::string Reading::*member = nullptr;
      std::string_view text;
    };
    static constexpr std::size_t kMaxHoles = 10;
    Found found_[kMaxHoles];
    std::size_t count_ = 0;
    std::size_t end_ = 0;
  };

  // Matches text from position `at` on. True: the match is filled.
  bool match(std::string_view text, std::size_t at, Match& match) const;

 private:
  struct Token {
    enum class Kind { kLiteral, kBlanks, kNumber, kText, kAny, kOptional, kOptionalEnd };
    Kind kind = Kind::kLiteral;
    std::string literal;                   // kLiteral
    SetField set = nullptr;                // kNumber
    std::string Reading::*text = nullptr;  // kText
    std::size_t end = 0;                   // kOptional: index of its end
  };

  void compile(std::string_view source);
  void add_hole(std::string_view name);
  bool match_from(std::size_t token, std::string_view text, std::size_t at, Match& match) const;
  std::optional<std::size_t> find_next(std::size_t token, std::string_view text, std::size_t at) const;

  std::vector<Token> tokens_;
  std::string anchor_;
};

}  // namespace scalewatch::logimport
