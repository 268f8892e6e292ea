// Which alerts are meant: matchers as Alertmanager writes them.
//
//   run="nightly-7"  severity!="info"  rule=~"NonFinite.*"  team!~"infra|ops"
//
// A value may stand without quotation marks when it holds none. Regular expressions are RE2's, match whole values, and take
// time linear in the value. Immutable, so thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"

namespace re2 {
class RE2;
}

namespace scalewatch::alerting {

class Matcher {
 public:
  static constexpr std::int64_t kMaxRegexBytes = 64 << 10;

  // Throws std::invalid_argument that says what is wrong with the text.
  static Matcher parse(std::string_view text);

  [[nodiscard]] bool matches(const v1::Alert& alert) const;
  // Whether an alert that lacks the name matches.
  [[nodiscard]] bool takes_absent() const { return takes(""); }
  // Whether it holds a compiled regular expression, of up to kMaxRegexBytes.
  [[nodiscard]] bool is_regex() const { return regex_ != nullptr; }
  // As a person would write it: equal matchers read equal.
  [[nodiscard]] std::string text() const;

 private:
  enum class Op : std::uint8_t { kEqual, kNotEqual, kMatches, kMatchesNot };
  Matcher() = default;
  [[nodiscard]] bool takes(std::string_view value) const;

  std::string name_;
  Op op_ = Op::kEqual;
  std::string value_;
  std::shared_ptr<const re2::RE2> regex_;  // of kMatches and kMatchesNot
};

using Matchers = std::vector<Matcher>;

// All of them hold. None: every alert.
bool match(const Matchers& matchers, const v1::Alert& alert);

// What an alert has under a name: run, run_uid, rule, severity, subject, tensor (the blamed one), else the run's label of that
// name. Empty when absent.
std::string_view field_of(const v1::Alert& alert, const std::string& name);

}  // namespace scalewatch::alerting
