#include "server/logimport/template_format.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxDetailBytes = 200;

// The byte before, blanks left out; 0 at the start of the message.
char before(const Line& line, std::size_t at) {
  while (at > line.body && (line.text[at - 1] == ' ' || line.text[at - 1] == '\t')) --at;
  return at > line.body ? line.text[at - 1] : '\0';
}

bool is_quote(char c) {
  return c == '"' || c == '\'' || c == '`';
}

// "message": "here": a quote that opens a value.
bool opens_value(const Line& line, std::size_t at) {
  return line.text[at - 1] == '"' && before(line, at - 1) == ':' &&
         line.text.substr(0, at - 1).find("\":") != std::string_view::npos;
}

// Whose own words people see.
bool keeps_words(Reading::Kind kind) {
  return kind == Reading::Kind::kFatal || kind == Reading::Kind::kMisuse || kind == Reading::Kind::kRanksDiffer;
}

bool stands(const Line& line, std::size_t at, Place place) {
  if (place == Place::kAnywhere || at == 0) return true;
  if (is_quote(line.text[at - 1])) return opens_value(line, at);
  if (place == Place::kUnquoted) return true;
  const char c = before(line, at);
  return c == '\0' || c == ':' || c == ']' || c == ')' || c == '-' || c == '|' || c == '>' || at <= line.body;
}

}  // namespace

TemplateFormat::Compiled::Compiled(std::span<const LineRule> rules) {
  templates.reserve(rules.size());
  for (const LineRule& rule : rules) {
    const Template& made = templates.emplace_back(rule.text);
    const auto known = std::find(anchors.begin(), anchors.end(), made.anchor());
    anchor_of.push_back(static_cast<std::size_t>(known - anchors.begin()));
    if (known == anchors.end()) anchors.push_back(made.anchor());
  }
}

// Once for each list of rules: formats are made anew for every file.
const TemplateFormat::Compiled& TemplateFormat::compiled(std::span<const LineRule> rules) {
  static std::mutex mutex;
  static std::map<const LineRule*, Compiled> all;
  const std::lock_guard lock(mutex);
  return all.try_emplace(rules.data(), rules).first->second;
}

TemplateFormat::TemplateFormat(std::string_view name, std::span<const LineRule> rules)
    : name_(name), rules_(rules), compiled_(compiled(rules)) {}

void TemplateFormat::read(const Line& line, std::size_t at, std::size_t anchor, Readings& out) {
  Template::Match match;
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    const LineRule& now = rules_[rule];
    if (compiled_.anchor_of[rule] != anchor || !stands(line, at, now.place) ||
        !compiled_.templates[rule].match(line.text, at, match))
      continue;
    Reading& reading = out.add(now.kind, at);
    reading.policy = now.policy;
    reading.where = now.where;
    reading.non_finite = now.non_finite;
    reading.misuse_kind = now.misuse_kind;
    if (keeps_words(now.kind)) {
      reading.detail = line.text.substr(at, std::min(match.end() - at, kMaxDetailBytes));
    }
    if (!match.apply(reading) || (now.finish != nullptr && !now.finish(reading))) {
      out.drop_last();
      continue;
    }
    out.claim(at, match.end());
    matched(rule, reading, out);
    return;
  }
}

}  // namespace scalewatch::logimport
