#include "server/alerting/matchers.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "server/alerting/alert_text.h"

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kMaxText = 1024;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

[[noreturn]] void fail(std::string_view text, const std::string& what) {
  throw std::invalid_argument(
      fmt::format("'{}': {}; expected NAME=\"VALUE\", or !=, =~ (regular expression), !~ in place of =", text, what));
}

// Without its quotation marks and escapes.
std::string unquoted(std::string_view text, std::string_view value) {
  if (!value.starts_with('"')) {
    if (value.find('"') != std::string_view::npos) fail(text, "a quotation mark within the value");
    return std::string(value);
  }
  std::string out;
  std::size_t at = 1;
  for (; at < value.size() && value[at] != '"'; ++at) {
    // Other escapes stay whole: they are the regular expression's.
    if (value[at] == '\\' && at + 1 < value.size() && (value[at + 1] == '"' || value[at + 1] == '\\')) ++at;
    out += value[at];
  }
  if (at + 1 != value.size()) fail(text, "the value does not end with its quotation mark");
  return out;
}

}  // namespace

Matcher Matcher::parse(std::string_view text) {
  if (text.size() > kMaxText) throw std::invalid_argument(fmt::format("a matcher has more than {} bytes", kMaxText));
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    throw std::invalid_argument("a matcher has a control character");
  }
  const auto at = text.find_first_of("=!");
  if (at == std::string_view::npos) fail(text, "no =");
  Matcher out;
  out.name_ = trimmed(text.substr(0, at));
  if (out.name_.empty() || out.name_.find_first_of(" \"{},") != std::string::npos) fail(text, "not a name before =");
  const std::string_view op = text.substr(at, 2);
  std::size_t taken = 2;
  if (op == "!=") {
    out.op_ = Op::kNotEqual;
  } else if (op == "=~") {
    out.op_ = Op::kMatches;
  } else if (op == "!~") {
    out.op_ = Op::kMatchesNot;
  } else if (op.starts_with('=')) {
    taken = 1;
  } else {
    fail(text, "! without = or ~");
  }
  out.value_ = unquoted(text, trimmed(text.substr(at + taken)));
  if (out.op_ == Op::kMatches || out.op_ == Op::kMatchesNot) {
    re2::RE2::Options options(re2::RE2::Quiet);
    options.set_max_mem(kMaxRegexBytes);
    auto regex = std::make_shared<re2::RE2>(out.value_, options);
    if (regex->error_code() == re2::RE2::ErrorPatternTooLarge) {
      throw std::invalid_argument(
          fmt::format("'{}': the regular expression takes more than {} KiB of memory: make it simpler, or use several matchers",
                      text, kMaxRegexBytes >> 10));
    }
    if (!regex->ok()) fail(text, "not a regular expression: " + regex->error());
    out.regex_ = std::move(regex);
  }
  return out;
}

bool Matcher::takes(std::string_view value) const {
  switch (op_) {
    case Op::kEqual:
      return value == value_;
    case Op::kNotEqual:
      return value != value_;
    case Op::kMatches:
      return re2::RE2::FullMatch(re2::StringPiece(value.data(), value.size()), *regex_);
    case Op::kMatchesNot:
      return !re2::RE2::FullMatch(re2::StringPiece(value.data(), value.size()), *regex_);
  }
  return false;
}

bool Matcher::matches(const v1::Alert& alert) const {
  return takes(field_of(alert, name_));
}

std::string Matcher::text() const {
  std::string quoted;
  for (const char c : value_) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  static constexpr const char* kOps[] = {"=", "!=", "=~", "!~"};
  return fmt::format("{}{}\"{}\"", name_, kOps[static_cast<int>(op_)], quoted);
}

bool match(const Matchers& matchers, const v1::Alert& alert) {
  return std::all_of(matchers.begin(), matchers.end(), [&](const Matcher& matcher) { return matcher.matches(alert); });
}

std::string_view field_of(const v1::Alert& alert, const std::string& name) {
  const v1::Finding& finding = alert.finding();
  if (name == "run") return alert.run();
  if (name == "run_uid") return alert.run_uid();
  if (name == "rule") return finding.rule();
  if (name == "severity") return severity_name(finding.severity());
  if (name == "subject") return finding.subject();
  if (name == "tensor") return finding.blame().tensor();
  const auto label = alert.labels().find(name);
  return label == alert.labels().end() ? std::string_view() : std::string_view(label->second);
}

}  // namespace scalewatch::alerting
