// A format that is a list of templates: most formats need nothing else.
#pragma once

#include <string_view>
#include <vector>

#include "server/logimport/format.h"
#include "server/logimport/template.h"

namespace scalewatch::logimport {

// Where a rule's text may stand. Sentences without a number stand in source code and documents too.
enum class Place : std::uint8_t {
  kAnywhere,
  kUnquoted,  // not right behind a quote or backtick, unless that opens a value: "message": "..."
  kSpoken,    // like kUnquoted, and it begins the message or follows a colon, bracket, dash or bar: not in the middle of prose
};

struct LineRule {
  std::string_view text;  // template.h
  Reading::Kind kind = Reading::Kind::kRecord;
  std::string_view policy = {};                // registered policy whose words these are
  bool (*finish)(Reading& reading) = nullptr;  // what the template can't say; false: no match after all
  Place place = Place::kAnywhere;
  std::string_view where = {};        // Reading::where
  std::string_view non_finite = {};   // Reading::non_finite
  std::string_view misuse_kind = {};  // Reading::misuse_kind
};

// What is fatal, wrong use or differs between ranks keeps the line's words from there on as Reading::detail. Of rules that
// begin at the same place the first that matches reads; put the longer one first.
class TemplateFormat : public Format {
 public:
  // rules and name in static storage. Throws std::logic_error as Template does.
  TemplateFormat(std::string_view name, std::span<const LineRule> rules);

  std::string_view name() const override { return name_; }
  std::span<const std::string_view> anchors() const override { return compiled_.anchors; }
  bool every_place() const override { return true; }
  void read(const Line& line, std::size_t at, std::size_t anchor, Readings& out) override;

 protected:
  // The rule has matched and filled the reading, which is the last of out. For formats that keep state.
  virtual void matched(std::size_t /*rule*/, Reading& /*reading*/, Readings& /*out*/) {}

 private:
  struct Compiled {
    explicit Compiled(std::span<const LineRule> rules);
    std::vector<Template> templates;
    std::vector<std::string_view> anchors;  // views into templates, without repeats
    std::vector<std::size_t> anchor_of;     // by rule
  };
  static const Compiled& compiled(std::span<const LineRule> rules);

  std::string_view name_;
  std::span<const LineRule> rules_;
  const Compiled& compiled_;
};

}  // namespace scalewatch::logimport
