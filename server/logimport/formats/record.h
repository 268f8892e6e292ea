// Formats whose lines are records of named numbers. What a name means comes from key_words.h; a format adds its own names, says
// how its lines are known, and of what its numbers are: that is a table (RecordSpec), no code.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "server/logimport/format.h"
#include "server/logimport/formats/key_words.h"
#include "server/logimport/formats/pairs.h"

namespace scalewatch::logimport {

struct KeyRule {
  std::string_view key;  // exactly as printed
  Meaning meaning;       // kNone: not what it looks like
};

// How the numbers of a format are to be taken.
struct RecordRules {
  using Span = Reading::Span;
  std::span<const KeyRule> keys = {};     // before key_words.h
  Span loss_span = Span::kUnknown;        // of the number printed as loss
  Span grad_norm_span = Span::kUnknown;   // of the number printed as gradient norm
  Span scale_span = Span::kUnknown;       // of the number printed as scale
  Span second_span = Span::kTotal;        // of a number in parentheses behind a loss: a mean
  bool first_is_mean = false;             // the number before those parentheses is a mean too, of a few steps (loss_span)
  std::optional<bool> counts_attempts{};  // Reading::step_counts_attempts
  std::string_view policy = {};           // Reading::policy
  bool sure = true;            // the format is known by its own words, so "scale" and "norm" alone are what they seem
  bool step_in_epoch = false;  // what it prints as iteration begins again with each epoch
};

// What a line showed of being about training; generic formats ask.
struct Evidence {
  bool position = false;      // step, epoch or batch, or a fraction where a progress would stand
  bool step = false;          // of these a step or batch
  bool loss = false;          // a loss of training or of an evaluation
  bool whole_loss = false;    // not only a part of one
  bool scale = false;         //
  bool grad_norm = false;     //
  bool lr = false;            //
  bool accuracy = false;      //
  bool skipped = false;       //
  bool evaluation = false;    // the line as a whole is about an evaluation
  bool explicit_key = false;  // a loss, scale or norm followed by ':' or '='
};

// Fills the reading from the pairs of a line.
Evidence fill_record(const Pairs& pairs, const RecordRules& rules, Reading& reading);

struct RecordSpec {
  std::string_view name;
  std::span<const std::string_view> anchors;      // Format::anchors; the line is a record only where one of them stands
  std::span<const std::string_view> needed = {};  // and all of these, anywhere
  RecordRules rules = {};
  enum class Region : std::uint8_t {
    kLine,    // all of the line that nobody has claimed
    kAnchor,  // from the anchor on
    kBraces,  // the { } around the anchor
  };
  Region region = Region::kLine;
  bool (*finish)(const Pairs& pairs, Reading& reading) = nullptr;  // what the table can't say; false: no record after all
};

// A format that is such a table. The spec in static storage.
std::unique_ptr<Format> make_record_format(const RecordSpec& spec);

// Sets the kind of a filled reading: a record, only progress, or nothing (false).
bool settle_kind(const Evidence& evidence, Reading& reading);

}  // namespace scalewatch::logimport
