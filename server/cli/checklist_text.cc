#include "server/cli/checklist_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace scalewatch::cli {

namespace {

using domain::Verdict;

constexpr int kMark = 4;   // columns before an item's title
constexpr int kLabel = 9;  // and before what is said of it

std::size_t count(const std::vector<domain::ChecklistItem>& items, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(items.begin(), items.end(), [&](const auto& item) { return item.judgement.verdict == verdict; }));
}

text::Style style_of(Verdict verdict) {
  return verdict == Verdict::kHolds      ? text::Style::kGood
         : verdict == Verdict::kViolated ? text::Style::kCritical
                                         : text::Style::kDim;
}

void print_block(std::string_view label, int indent, const std::string& body, text::Style style, const Screen& screen) {
  bool first = true;
  for (const auto& line : text::wrap(body, screen.width > 0 ? std::max(20, screen.width - indent) : 0)) {
    screen.out << screen.paint(text::pad(first ? label : "", indent), style) << line << '\n';
    first = false;
  }
}

}  // namespace

void print_checklist(const std::vector<domain::ChecklistItem>& items, const Screen& screen) {
  screen.out << fmt::format("{} violated, {} hold, {} not observable\n", count(items, Verdict::kViolated),
                            count(items, Verdict::kHolds), count(items, Verdict::kNotObservable));
  for (const auto verdict : {Verdict::kViolated, Verdict::kHolds, Verdict::kNotObservable}) {
    if (count(items, verdict) == 0) continue;
    screen.out << '\n' << screen.paint(domain::verdict_word(verdict), text::Style::kBold) << '\n';
    for (const auto& item : items) {
      if (item.judgement.verdict != verdict) continue;
      const std::string_view mark = verdict == Verdict::kHolds ? "  +" : verdict == Verdict::kViolated ? "  !" : "  ?";
      print_block(mark, kMark, item.title, style_of(verdict), screen);
      if (!item.judgement.evidence.empty())
        print_block("    why", kLabel, Screen::name(item.judgement.evidence), text::Style::kDim, screen);
      if (!item.judgement.send.empty())
        print_block("    send", kLabel, Screen::name(item.judgement.send), text::Style::kDim, screen);
    }
  }
}

nlohmann::ordered_json checklist_json(const std::vector<domain::ChecklistItem>& items) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const auto& item : items) {
    list.push_back({{"id", item.id},
                    {"title", item.title},
                    {"verdict", domain::verdict_word(item.judgement.verdict)},
                    {"evidence", item.judgement.evidence},
                    {"send", item.judgement.send.empty() ? Json(nullptr) : Json(item.judgement.send)}});
  }
  return {{"holds", count(items, Verdict::kHolds)},
          {"violated", count(items, Verdict::kViolated)},
          {"not_observable", count(items, Verdict::kNotObservable)},
          {"items", std::move(list)}};
}

bool any_violated(const std::vector<domain::ChecklistItem>& items) {
  return count(items, Verdict::kViolated) > 0;
}

}  // namespace scalewatch::cli
