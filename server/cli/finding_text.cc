#include "server/cli/finding_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/cli/text/units.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

constexpr int kLabel = 10;  // columns of the label before a block, its indent included
constexpr std::size_t kMaxGroups = 16;

std::string number(double value) {
  const bool whole = std::isfinite(value) && value == std::round(value) && std::abs(value) < 1e15;
  return whole ? fmt::format("{:.0f}", value) : text::magnitude(value);
}

// A scale is thought of as a power of two; small whole ones are themselves.
std::string number_of(const domain::Evidence& evidence, double value) {
  const bool scale = evidence.name.starts_with("scale") || evidence.name.ends_with("scale");
  int exponent = 0;
  const bool power = std::isfinite(value) && value > 0 && std::frexp(value, &exponent) == 0.5;
  return scale && power && (value < 1 || value > 512) ? text::scale(value) : number(value);
}

std::string words_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

// "attempts", or "attempt" beside a 1; units of one letter stay as they are.
std::string unit_of(const domain::Evidence& evidence) {
  std::string unit = Screen::name(evidence.unit);
  if (evidence.value == 1 && unit.size() > 2 && unit.back() == 's') unit.pop_back();
  return unit;
}

// A label and, beside it, text over as many lines as it needs.
void print_block(std::string_view label, std::string_view body, const Screen& screen) {
  bool first = true;
  for (const auto& line : text::wrap(body, screen.width > 0 ? std::max(20, screen.width - kLabel) : 0)) {
    screen.out << screen.paint(text::pad(first ? fmt::format("  {}", label) : "", kLabel), text::Style::kDim) << line << '\n';
    first = false;
  }
}

void print_blame(const domain::Blame& blame, Detail detail, const Screen& screen) {
  print_block("where", blame_text(blame), screen);
  if (detail == Detail::kBrief) return;
  if (blame.tensors_non_finite > 1) {
    print_block("", fmt::format("{} tensors were non-finite at step {}", text::exact(blame.tensors_non_finite), blame.step),
                screen);
  }
  if (blame.first_bad_micro.value_or(0) > 0) {  // the first is where anything begins
    print_block("", fmt::format("it went bad in micro-batch {} first (counted from 0)", *blame.first_bad_micro), screen);
  }
  if (!blame.fastest_falling.empty()) {
    print_block(
        "",
        fmt::format("headroom fell fastest in {}: {:.1f} octaves", Screen::name(blame.fastest_falling), blame.octaves_fallen),
        screen);
  }
  if (!blame.note.empty()) print_block("", Screen::name(blame.note), screen);
}

std::string confidence_text(double confidence) {
  return fmt::format("{:.0f}% sure", 100 * std::clamp(std::isnan(confidence) ? 0.0 : confidence, 0.0, 1.0));
}

}  // namespace

std::string evidence_text(const domain::Evidence& evidence) {
  std::string out = words_of(Screen::name(evidence.name)) + " " + number_of(evidence, evidence.value);
  if (!evidence.unit.empty()) out += " " + unit_of(evidence);
  if (evidence.limit) out += fmt::format(" (limit {})", number_of(evidence, *evidence.limit));
  return out;
}

std::string ranks_text(std::span<const domain::Rank> ranks) {
  std::string out;
  std::size_t groups = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (++groups > kMaxGroups) return out + fmt::format(" and {} more", ranks.size() - i);
    if (!out.empty()) out += ", ";
    out += end - i == 1 ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]);
    i = end;
  }
  return out;
}

std::string when_text(const domain::Finding& finding) {
  const auto range = [](std::string_view one, auto first, auto last) {
    return first == last ? fmt::format("{} {}", one, first) : fmt::format("{}s {}-{}", one, first, last);
  };
  std::string steps = range("step", finding.first_step, finding.last_step);
  // A log's reader looks for the line.
  if (finding.line != 0) {
    return fmt::format("{}line {} ({})", finding.segment > 1 ? fmt::format("run {}, ", finding.segment) : "", finding.line,
                       steps);
  }
  if (finding.first_attempt == 0) return steps;
  return fmt::format("{} ({})", range("attempt", finding.first_attempt, finding.last_attempt), steps);
}

std::string blame_text(const domain::Blame& blame) {
  std::string out = blame.tensor.empty() ? "no single tensor" : Screen::name(blame.tensor);
  if (!blame.tensor.empty() && blame.role != Role::kUnspecified) out += fmt::format(" ({})", role_word(blame.role));
  if (!blame.where.empty()) out += ", " + Screen::name(blame.where);
  if (blame.nan > 0) out += fmt::format(", {} NaN", text::exact(blame.nan));
  if (blame.inf > 0) out += fmt::format(", {} Inf", text::exact(blame.inf));
  if (blame.nan == 0 && blame.inf == 0 && !blame.kind.empty()) out += ", " + Screen::name(blame.kind);
  const bool only_there = blame.rank_of_origin && blame.ranks == std::vector{*blame.rank_of_origin};
  if (blame.rank_of_origin) {
    out += fmt::format(", began on rank {}", *blame.rank_of_origin);
  }
  if (!blame.ranks.empty() && !only_there)
    out += fmt::format(", {} {}", blame.ranks.size() == 1 ? "rank" : "ranks", ranks_text(blame.ranks));
  return out;
}

void print_finding(const domain::Finding& finding, Detail detail, const Screen& screen, std::set<std::string>* said) {
  screen.out << screen.paint(severity_word(finding.severity), severity_style(finding.severity)) << ' '
             << screen.paint(Screen::name(finding.rule), text::Style::kBold);
  if (!finding.subject.empty()) {
    const auto room = screen.width > 0 ? std::max(12, screen.width / 3) : 0;
    screen.out << " of " << text::truncate_middle(Screen::name(finding.subject), room, screen.ascii);
  }
  screen.out << ", " << when_text(finding) << (finding.open ? "" : ", resolved") << '\n';
  print_block("what", Screen::name(finding.summary), screen);
  if (finding.blame) print_blame(*finding.blame, detail, screen);
  if (detail == Detail::kFull && !finding.ranks.empty()) print_block("ranks", ranks_text(finding.ranks), screen);
  if (detail == Detail::kFull && !finding.evidence.empty()) {
    std::vector<std::string> numbers;
    numbers.reserve(finding.evidence.size());
    for (const auto& evidence : finding.evidence) numbers.push_back(evidence_text(evidence));
    print_block("numbers", fmt::format("{}", fmt::join(numbers, ", ")), screen);
  }
  const std::size_t shown = detail == Detail::kFull ? finding.advice.size() : std::min<std::size_t>(1, finding.advice.size());
  std::size_t printed = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& advice = finding.advice[i];
    if (said != nullptr && !said->insert(advice.text).second) continue;
    print_block(printed++ == 0 ? "do" : "or",
                fmt::format("{} ({})", Screen::name(advice.text), confidence_text(advice.confidence)), screen);
  }
  if (shown > 0 && printed == 0) print_block("do", "as said above", screen);
}

}  // namespace scalewatch::cli
