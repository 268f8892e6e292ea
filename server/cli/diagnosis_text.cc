#include "server/cli/diagnosis_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "server/cli/finding_text.h"
#include "server/cli/text/units.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kPlotRows = 8;
constexpr std::uint64_t kFew = 3;  // attempts

Json number(std::optional<double> value) {
  if (!value) return nullptr;
  if (std::isnan(*value)) return "NaN";
  if (std::isinf(*value)) return *value > 0 ? "Infinity" : "-Infinity";
  return *value;
}

Json finding_json(const domain::Finding& finding) {
  Json evidence = Json::array();
  for (const auto& item : finding.evidence) {
    evidence.push_back(
        {{"name", item.name}, {"value", number(item.value)}, {"unit", item.unit}, {"limit", number(item.limit)}});
  }
  Json advice = Json::array();
  for (const auto& item : finding.advice) {
    advice.push_back({{"id", item.id}, {"text", item.text}, {"confidence", number(item.confidence)}});
  }
  const bool blamed = finding.blame && !finding.blame->tensor.empty();
  return {{"rule", finding.rule},
          {"severity", severity_word(finding.severity)},
          {"first_step", finding.first_step},
          {"last_step", finding.last_step},
          {"line", finding.line != 0 ? Json(finding.line) : Json(nullptr)},
          {"ranks", finding.ranks},
          {"blamed", blamed ? Json(finding.blame->tensor) : Json(nullptr)},
          {"evidence", std::move(evidence)},
          {"advice", std::move(advice)}};
}

std::string scale_text(std::optional<double> value) {
  return value ? text::scale(*value) : "-";
}

// Of these nobody said whether they were applied.
std::uint64_t unknown(const domain::RunFacts& facts) {
  const std::uint64_t known = facts.applied + facts.skipped + facts.partial;
  return facts.attempts > known ? facts.attempts - known : 0;
}

}  // namespace

void print_diagnosis(const domain::Diagnosis& diagnosis, std::span<const ScalePlot> plots, const Screen& screen) {
  const auto& facts = diagnosis.facts;
  screen.out << screen.paint(domain::verdict_text(diagnosis.verdict), severity_style(diagnosis.verdict)) << '\n';
  screen.say(Screen::name(diagnosis.headline));
  screen.out << '\n'
             << fmt::format("{}, {} applied, {} skipped ({}), {} partial{}", text::plural(facts.attempts, "attempt"),
                            text::exact(facts.applied), text::exact(facts.skipped),
                            text::percent(static_cast<double>(facts.skipped), static_cast<double>(facts.attempts)),
                            text::exact(facts.partial),
                            unknown(facts) > 0 ? fmt::format(", {} not known", text::exact(unknown(facts))) : "")
             << '\n';
  if (diagnosis.verdict >= domain::Severity::kWarning && facts.attempts < kFew) {
    screen.say("the verdict is of so few attempts: what came before and after them would tell more");
  }
  if (facts.scale_first || facts.scale_last || facts.scale_min) {
    screen.out << fmt::format("scale {} at first, {} at last, {} at least\n", scale_text(facts.scale_first),
                              scale_text(facts.scale_last), scale_text(facts.scale_min));
  }
  for (const auto& [title, scale] : plots) {
    const auto plot = text::plot_scale(scale, screen.plot_width(), kPlotRows, screen.ascii);
    if (plot.empty()) continue;
    screen.out << '\n';
    if (!title.empty()) screen.out << screen.paint(title, text::Style::kBold) << '\n';
    for (const auto& line : plot) screen.out << line << '\n';
  }
  std::set<std::string> said;
  for (const auto& finding : diagnosis.findings) {
    screen.out << '\n';
    print_finding(finding, Detail::kFull, screen, &said);
  }
}

std::string finding_json_line(const domain::Finding& finding) {
  return finding_json(finding).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string diagnosis_json(const domain::Diagnosis& diagnosis, std::string_view format) {
  Json findings = Json::array();
  for (const auto& finding : diagnosis.findings) findings.push_back(finding_json(finding));
  const auto& facts = diagnosis.facts;
  const Json out{
      {"format", format},
      {"verdict", domain::verdict_text(diagnosis.verdict)},
      {"headline", diagnosis.headline},
      {"attempts",
       {{"seen", facts.attempts}, {"applied", facts.applied}, {"skipped", facts.skipped}, {"unknown", unknown(facts)}}},
      {"scale", {{"first", number(facts.scale_first)}, {"last", number(facts.scale_last)}, {"min", number(facts.scale_min)}}},
      {"findings", std::move(findings)}};
  // Only ASCII leaves: no name can reach the terminal's control codes, and malformed bytes become U+FFFD.
  return out.dump(2, ' ', true, Json::error_handler_t::replace);
}

}  // namespace scalewatch::cli
