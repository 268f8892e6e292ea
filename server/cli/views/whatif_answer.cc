#include "server/cli/views/whatif_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/json_number.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

using domain::Underflow;
using domain::WhatIf;
using domain::WhatIfAttempt;
using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 20;

constexpr const char* kCaveat =
    "It can't know all: once an attempt goes another way the weights differ, and later attempts would have been others. Where "
    "gradients were non-finite their size was not recorded, only that the scale was too large: under a smaller one the attempt "
    "is taken for applied (undecided), so the skips are a lower bound. Zeros can't be recovered, so what was flushed before it "
    "was measured is in no share; a share that the records only bound is told as a bound. Only recorded tensors are looked at.";
constexpr const char* kBestCaveat =
    "The settings fit the attempts that were recorded: a later part of the run, or another run, may want others.";

// Attempts at which the replay of the policy that ran did otherwise than what was recorded.
std::size_t differences(const WhatIf& result, const std::vector<WhatIfAttempt>& attempts) {
  std::size_t count = attempts.size() - result.steps.size();
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    count += result.steps[i].skipped != attempts[i].skipped || result.steps[i].scale != attempts[i].scale ? 1 : 0;
  }
  return count;
}

Underflow total(const std::vector<Underflow>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), Underflow{}, [](Underflow sum, const Underflow& one) {
    sum += one;
    return sum;
  });
}

std::string story_text(std::string_view what, const Story& story) {
  std::string out = fmt::format("{}: {}", what, Screen::name(story.policy));
  for (const auto& [name, value] : story.parameters) out += fmt::format(" {}={:.10g}", Screen::name(name), value);
  return out;
}

void print_skips(const WhatIfAnswer& answer, const Screen& screen) {
  const auto& attempts = answer.recorded.attempts;
  const auto skipped = std::count_if(attempts.begin(), attempts.end(), [](const WhatIfAttempt& a) { return a.skipped; });
  using text::Align;
  text::Table table({{""},
                     {"SKIPPED", Align::kRight},
                     {"GROWTHS", Align::kRight},
                     {"LEAST SCALE", Align::kRight},
                     {"LAST", Align::kRight},
                     {"UNDECIDED", Align::kRight}});
  table.add({{"as it went"}, {text::exact(static_cast<std::uint64_t>(skipped))}});
  const auto row = [&](const std::string& what, const WhatIf& result) {
    table.add({{what},
               {text::exact(result.skipped)},
               {text::exact(result.growths)},
               {text::scale(result.scale_min)},
               {text::scale(result.scale_last)},
               {text::exact(result.undecided)}});
  };
  row("replayed", answer.ran.result);
  row("instead", answer.instead.result);
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  const auto off = differences(answer.ran.result, attempts);
  screen.say(off == 0 ? "The replay of the policy that ran is exact."
                      : fmt::format("The replay of the policy that ran differs at {}: see it as a rough guide.",
                                    text::plural(off, "attempt")),
             text::Style::kPlain);
  if (answer.instead.result.unknown > 0) {
    screen.out << text::plural(answer.instead.result.unknown, "attempt")
               << " without recorded gradients: taken as they went.\n";
  }
  if (answer.instead.result.ended) screen.out << "The scaler would have ended the run.\n";
}

void print_search(const WhatIfAnswer& answer, const Screen& screen) {
  const auto& search = *answer.search;
  auto said = fmt::format(
      "Of {} settings of {} these skip least where at most {} of the gradient elements are subnormal: at most {} are.",
      text::exact(search.tried), fmt::join(search.searched, ", "), text::percent(answer.most_underflow, 1),
      text::percent(search.underflow, 1));
  if (!search.within) {
    said = fmt::format(
        "None of {} settings of {} keeps subnormal gradient elements at {} or less; these come nearest: at most {}.",
        text::exact(search.tried), fmt::join(search.searched, ", "), text::percent(answer.most_underflow, 1),
        text::percent(search.underflow, 1));
  }
  if (const auto undecided = search.result.undecided; undecided > 0) {
    said += fmt::format(" {} of {} are undecided and taken for applied{}.", text::exact(undecided),
                        text::plural(answer.recorded.attempts.size(), "attempt"),
                        2 * undecided > answer.recorded.attempts.size() ? ": this is no evidence" : "");
  }
  screen.say(said, text::Style::kPlain);
  screen.out << '\n';
}

void print_changes(const WhatIfAnswer& answer, const Screen& screen) {
  using text::Align;
  text::Table changed(
      {{"ATTEMPT", Align::kRight}, {"AS IT WENT"}, {"SCALE", Align::kRight}, {"INSTEAD"}, {"SCALE", Align::kRight}});
  std::size_t differ = 0;
  const auto& attempts = answer.recorded.attempts;
  const auto& steps = answer.instead.result.steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].skipped == attempts[i].skipped || ++differ > kShown) continue;
    changed.add({{fmt::format("{}", attempts[i].attempt)},
                 {attempts[i].skipped ? "skipped" : "applied"},
                 {text::scale(attempts[i].scale)},
                 {steps[i].skipped     ? "skipped"
                  : steps[i].undecided ? "undecided"
                                       : "applied"},
                 {text::scale(steps[i].scale)}});
  }
  if (differ == 0) return;
  screen.out << '\n' << text::plural(differ, "attempt") << (differ == 1 ? " goes" : " go") << " another way\n";
  changed.print(screen.out, screen.width, screen.color, screen.ascii);
  if (differ > kShown) screen.out << text::exact(differ - kShown) << " more: --json lists all.\n";
}

void print_underflow(const WhatIfAnswer& answer, const Screen& screen) {
  if (answer.went.empty()) return;
  const auto went = total(answer.went);
  const auto instead = total(answer.went_under);
  const auto& infos = answer.recorded.tensors.infos();
  std::vector<std::size_t> order(answer.went.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return domain::worst_share(answer.went_under[a]) > domain::worst_share(answer.went_under[b]);
  });
  using text::Align;
  text::Table table({{"GRADIENT OF", Align::kLeft, true},
                     {"ROLE"},
                     {"SUBNORM", Align::kRight},
                     {"INSTEAD", Align::kRight},
                     {"FLUSHED", Align::kRight},
                     {"INSTEAD", Align::kRight}});
  const auto row = [&](const std::string& name, std::string_view role, const Underflow& a, const Underflow& b) {
    table.add({{name},
               {std::string(role)},
               {share_text(a.subnormal, a.elements, screen.ascii)},
               {share_text(b.subnormal, b.elements, screen.ascii)},
               {share_text(a.flushed, a.elements, screen.ascii)},
               {share_text(b.flushed, b.elements, screen.ascii)}});
  };
  row("all of them", "", went, instead);
  for (std::size_t i = 0; i < order.size() && i < answer.shown; ++i) {
    const auto at = order[i];
    row(Screen::name(infos[at].name()), role_short(infos[at].role()), answer.went[at], answer.went_under[at]);
  }
  screen.out << '\n';
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  if (order.size() > answer.shown)
    screen.out << text::plural(order.size() - answer.shown, "more tensor") << ": --limit shows more, --json all.\n";
  if (answer.recorded.stride > 1) screen.out << fmt::format("Shares are of every {}th attempt.\n", answer.recorded.stride);
}

Json story_json(const Story& story) {
  return {{"policy", story.policy},
          {"parameters", story.parameters},
          {"skipped", story.result.skipped},
          {"growths", story.result.growths},
          {"undecided", story.result.undecided},
          {"unknown", story.result.unknown},
          {"scale_min", json_number(story.result.scale_min)},
          {"scale_last", json_number(story.result.scale_last)},
          {"ended", story.result.ended}};
}

Json underflow_json(const Underflow& underflow) {
  return {{"subnormal", share_json(underflow.subnormal, underflow.elements)},
          {"flushed", share_json(underflow.flushed, underflow.elements)}};
}

}  // namespace

std::string share_text(const domain::Bounds& count, double elements, bool ascii) {
  if (elements <= 0) return "-";
  const auto high = text::percent(count.high, elements);
  const auto low = text::percent(count.low, elements);
  if (low == high) return high;
  if (count.low <= 0) return (ascii ? "<=" : "≤") + (high.starts_with('<') ? high.substr(1) : high);
  return (low.starts_with('<') ? low : low.substr(0, low.size() - 1)) + '-' + high;
}

nlohmann::ordered_json share_json(const domain::Bounds& count, double elements) {
  if (elements <= 0) return nullptr;
  return {{"low", count.low / elements}, {"high", count.high / elements}};
}

void print_whatif(const WhatIfAnswer& answer, const Screen& screen) {
  const auto& attempts = answer.recorded.attempts;
  screen.out << text::plural(attempts.size(), "attempt") << ", " << attempts.front().attempt << " to "
             << attempts.back().attempt << '\n';
  if (answer.recorded.without_scale > 0) {
    screen.say(text::plural(answer.recorded.without_scale, "more attempt") + " with no scale above 0: nothing to replay there.",
               text::Style::kPlain);
  }
  screen.say(story_text("ran", answer.ran), text::Style::kPlain);
  screen.say(story_text(answer.search ? "best" : "instead", answer.instead), text::Style::kBold);
  screen.out << '\n';
  if (answer.search) print_search(answer, screen);
  print_skips(answer, screen);
  print_underflow(answer, screen);
  print_changes(answer, screen);
  screen.out << '\n';
  screen.say(kCaveat, text::Style::kDim);
  if (answer.search) screen.say(kBestCaveat, text::Style::kDim);
}

void print_whatif_json(const WhatIfAnswer& answer, const Screen& screen) {
  const auto& attempts = answer.recorded.attempts;
  const auto& result = answer.instead.result;
  Json steps = Json::array();
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    const auto& step = result.steps[i];
    steps.push_back({{"attempt", attempts[i].attempt},
                     {"skipped", attempts[i].skipped},
                     {"scale", json_number(attempts[i].scale)},
                     {"instead_skipped", step.skipped},
                     {"instead_scale", json_number(step.scale)},
                     {"undecided", step.undecided}});
  }
  Json tensors = Json::array();
  const auto& infos = answer.recorded.tensors.infos();
  for (std::size_t i = 0; i < infos.size() && i < answer.went.size(); ++i) {
    tensors.push_back({{"name", infos[i].name()},
                       {"role", role_word(static_cast<Role>(infos[i].role()))},
                       {"elements", answer.went[i].elements},
                       {"went", underflow_json(answer.went[i])},
                       {"instead", underflow_json(answer.went_under[i])}});
  }
  Json search = nullptr;
  if (answer.search) {
    search = {{"searched", answer.search->searched},
              {"tried", answer.search->tried},
              {"most_underflow", answer.most_underflow},
              {"underflow", answer.search->underflow},
              {"within", answer.search->within}};
  }
  const Json out{
      {"attempts", attempts.size()},
      {"replay_differs_at", differences(answer.ran.result, attempts)},
      {"ran", story_json(answer.ran)},
      {"instead", story_json(answer.instead)},
      {"search", std::move(search)},
      {"underflow", {{"went", underflow_json(total(answer.went))}, {"instead", underflow_json(total(answer.went_under))}}},
      {"underflow_of_every", answer.recorded.stride},
      {"tensors", std::move(tensors)},
      {"steps", std::move(steps)}};
  screen.out << out.dump(2, ' ', true, Json::error_handler_t::replace) << '\n';
}

}  // namespace scalewatch::cli
