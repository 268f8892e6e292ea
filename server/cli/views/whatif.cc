// What another policy would have done with the gradients that were recorded.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cuda/record/format.h"
#include "server/cli/attempts.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/json_number.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/replay_trace.h"
#include "server/cli/views/whatif.h"
#include "server/domain/whatif.h"

namespace scalewatch::cli {

namespace {

using domain::WhatIf;
using domain::WhatIfAttempt;

constexpr std::uint64_t kMaxAttempts = 50'000;
constexpr std::size_t kShown = 20;

constexpr const char* kCaveat =
    "It can't know all: once an attempt goes another way the weights differ, and later attempts would have been others. Where "
    "gradients were non-finite their size was not recorded, only that the scale was too large: under a smaller one the attempt "
    "is taken for applied (undecided), so the skips are a lower bound. Only recorded tensors are looked at.";

// Folds a tensor into what is known of the attempt.
void fold(WhatIfAttempt& attempt, const v1::TensorRecord& tensor) {
  const auto& record = tensor.record();
  const bool finite = record.nan() == 0 && infinities(record) == 0;
  const auto role = tensor.info().role();
  if (role == v1::ROLE_ACTIVATION) {
    // Only -Inf is likely a mask.
    attempt.scale_no_help = attempt.scale_no_help || record.nan() > 0 || record.pos_inf() > 0;
    return;
  }
  if (role != v1::ROLE_GRADIENT && role != v1::ROLE_ACTIVATION_GRADIENT) return;
  attempt.non_finite = attempt.non_finite || !finite;
  const auto largest = absmax(record);
  const double limit = format_limits(static_cast<DType>(tensor.info().dtype())).max_finite;
  if (!largest || *largest <= 0 || limit <= 0) return;
  const double room = limit / *largest;
  attempt.room = std::min(attempt.room.value_or(room), room);
}

const v1::ScalerPoint* point_of(const v1::AttemptSummary& attempt, std::uint32_t scaler) {
  for (const auto& point : attempt.scalers()) {
    if (point.scaler() == scaler && point.has_scale_before()) return &point;
  }
  return nullptr;
}

std::vector<WhatIfAttempt> read(Client& client, const std::string& run, const RangeOptions& range, std::uint32_t scaler,
                                const Screen& screen) {
  std::vector<WhatIfAttempt> out;
  bool known = false;
  walk_attempts(client, {run, range, std::nullopt, true, "reading"}, screen,
                [&](const v1::GetAttemptResponse& page, bool first) {
                  if (first) {
                    const auto* point = point_of(page.attempt(), scaler);
                    known = point != nullptr && std::isfinite(point->scale_before()) && point->scale_before() > 0;
                    if (!known) return true;
                    WhatIfAttempt attempt;
                    attempt.attempt = page.attempt().attempt();
                    attempt.scale = point->scale_before();
                    attempt.skipped = point->skipped() + point->partial() > 0;
                    attempt.scale_no_help = page.attempt().has_loss() && !std::isfinite(page.attempt().loss());
                    out.push_back(attempt);
                  }
                  if (!known) return true;
                  for (const auto& tensor : page.tensors()) fold(out.back(), tensor);
                  return true;
                });
  return out;
}

struct Story {
  std::string policy;
  domain::PolicyParameters parameters;
  WhatIf result;
};

Story told(const std::string& policy, const domain::PolicyParameters& parameters, const std::vector<WhatIfAttempt>& attempts) {
  const auto machine = domain::make_policy(policy, parameters);
  return {policy, parameters, domain::what_if(*machine, attempts)};
}

// Attempts at which the replay of the policy that ran did otherwise than what was recorded.
std::size_t differences(const WhatIf& result, const std::vector<WhatIfAttempt>& attempts) {
  std::size_t count = attempts.size() - result.steps.size();
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    count += result.steps[i].skipped != attempts[i].skipped || result.steps[i].scale != attempts[i].scale ? 1 : 0;
  }
  return count;
}

std::string parameters_text(const domain::PolicyParameters& parameters) {
  std::string out;
  for (const auto& [name, value] : parameters) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", Screen::name(name), text::magnitude(value));
  }
  return out;
}

void print_text(const Story& ran, const Story& other, const std::vector<WhatIfAttempt>& attempts, const Screen& screen) {
  std::uint64_t skipped = 0;
  for (const auto& attempt : attempts) skipped += attempt.skipped ? 1 : 0;
  using text::Align;
  text::Table table({{""},
                     {"SKIPPED", Align::kRight},
                     {"GROWTHS", Align::kRight},
                     {"LEAST SCALE", Align::kRight},
                     {"LAST", Align::kRight},
                     {"UNDECIDED", Align::kRight}});
  table.add({{"as it went"}, {text::exact(skipped)}});
  const auto row = [&](const std::string& what, const WhatIf& result) {
    table.add({{what},
               {text::exact(result.skipped)},
               {text::exact(result.growths)},
               {text::scale(result.scale_min)},
               {text::scale(result.scale_last)},
               {text::exact(result.undecided)}});
  };
  row("replayed", ran.result);
  row("instead", other.result);
  screen.out << text::plural(attempts.size(), "attempt") << ", " << attempts.front().attempt << " to "
             << attempts.back().attempt << '\n';
  for (const auto& line :
       text::wrap(fmt::format("ran: {} {}", Screen::name(ran.policy), parameters_text(ran.parameters)), screen.width)) {
    screen.out << line << '\n';
  }
  for (const auto& line :
       text::wrap(fmt::format("instead: {} {}", Screen::name(other.policy), parameters_text(other.parameters)), screen.width)) {
    screen.out << line << '\n';
  }
  screen.out << '\n';
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  const auto off = differences(ran.result, attempts);
  screen.out << (off == 0 ? "The replay of the policy that ran is exact.\n"
                          : fmt::format("The replay of the policy that ran differs at {}: see it as a rough guide.\n",
                                        text::plural(off, "attempt")));
  if (other.result.unknown > 0) {
    screen.out << text::plural(other.result.unknown, "attempt") << " without recorded gradients: taken as they went.\n";
  }
  if (other.result.ended) screen.out << "The scaler would have ended the run.\n";
  text::Table changed(
      {{"ATTEMPT", Align::kRight}, {"AS IT WENT"}, {"SCALE", Align::kRight}, {"INSTEAD"}, {"SCALE", Align::kRight}});
  std::size_t differ = 0;
  for (std::size_t i = 0; i < other.result.steps.size(); ++i) {
    const auto& step = other.result.steps[i];
    if (step.skipped == attempts[i].skipped || ++differ > kShown) continue;
    changed.add({{fmt::format("{}", attempts[i].attempt)},
                 {attempts[i].skipped ? "skipped" : "applied"},
                 {text::scale(attempts[i].scale)},
                 {step.skipped     ? "skipped"
                  : step.undecided ? "undecided"
                                   : "applied"},
                 {text::scale(step.scale)}});
  }
  if (differ > 0) {
    screen.out << '\n' << text::plural(differ, "attempt") << (differ == 1 ? " goes" : " go") << " another way\n";
    changed.print(screen.out, screen.width, screen.color, screen.ascii);
    if (differ > kShown) screen.out << text::exact(differ - kShown) << " more: --json lists all.\n";
  }
  screen.out << '\n';
  for (const auto& line : text::wrap(kCaveat, screen.width)) screen.out << screen.paint(line, text::Style::kDim) << '\n';
}

nlohmann::ordered_json story_json(const Story& story) {
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

void print_json_story(const Story& ran, const Story& other, const std::vector<WhatIfAttempt>& attempts, const Screen& screen) {
  using Json = nlohmann::ordered_json;
  Json steps = Json::array();
  for (std::size_t i = 0; i < other.result.steps.size(); ++i) {
    const auto& step = other.result.steps[i];
    steps.push_back({{"attempt", attempts[i].attempt},
                     {"skipped", attempts[i].skipped},
                     {"scale", json_number(attempts[i].scale)},
                     {"instead_skipped", step.skipped},
                     {"instead_scale", json_number(step.scale)},
                     {"undecided", step.undecided}});
  }
  const Json out{{"attempts", attempts.size()},
                 {"replay_differs_at", differences(ran.result, attempts)},
                 {"ran", story_json(ran)},
                 {"instead", story_json(other)},
                 {"steps", std::move(steps)}};
  screen.out << out.dump(2, ' ', true, Json::error_handler_t::replace) << '\n';
}

}  // namespace

void show_whatif(Client& client, const WhatIfOptions& options, const Screen& screen) {
  domain::PolicyParameters settings;
  for (const auto& setting : options.settings) {
    if (!add_setting(settings, setting)) {
      throw CallError(Screen::name(setting) + " is not KEY=VALUE with a number as value", kExitUsage);
    }
  }
  v1::GetRunRequest request;
  request.set_run(options.run);
  const auto run = client.get_run(request);
  const auto scaler = std::find_if(run.scalers().begin(), run.scalers().end(),
                                   [&](const v1::ScalerSummary& s) { return s.scaler() == options.scaler; });
  if (scaler == run.scalers().end()) {
    throw CallError(fmt::format("{} has no scaler {}: there is nothing to replay", Screen::name(options.run), options.scaler),
                    kExitNothing);
  }
  const domain::PolicyParameters sent(scaler->parameters().begin(), scaler->parameters().end());
  if (const auto why = refusal(scaler->policy(), {}); !why.empty()) {
    throw CallError("the policy that ran is not known here (" + Screen::name(scaler->policy()) + ")", kExitNothing);
  }
  const auto policy = options.policy.empty() ? scaler->policy() : options.policy;
  auto parameters = policy == scaler->policy() ? sent : domain::PolicyParameters{};
  for (const auto& [name, value] : settings) parameters[name] = value;
  if (const auto why = refusal(policy, parameters); !why.empty()) throw CallError(why, kExitUsage);
  const auto range = closed_range(client, run.run().run_uid(), {run.run().segment(), 1, 0}, kMaxAttempts);
  auto attempts = range ? read(client, run.run().run_uid(), {range->segment, 1, std::min(range->last, kMaxAttempts)},
                               options.scaler, screen)
                        : std::vector<WhatIfAttempt>{};
  if (attempts.empty()) throw CallError("no attempt with a scale is stored: there is nothing to replay", kExitNothing);
  const auto ran = told(scaler->policy(), sent, attempts);
  const auto other = told(policy, parameters, attempts);
  if (screen.json) return print_json_story(ran, other, attempts, screen);
  print_text(ran, other, attempts, screen);
}

}  // namespace scalewatch::cli
