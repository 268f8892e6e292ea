#include "server/cli/views/whatif.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/cli/attempts.h"
#include "server/cli/progress.h"
#include "server/cli/views/replay_trace.h"
#include "server/cli/views/whatif_answer.h"

namespace scalewatch::cli {

namespace {

constexpr std::uint64_t kMaxAttempts = 50'000;
constexpr double kHarmless = 0.01;  // share of subnormal gradient elements that a search may cost

Story told(const std::string& policy, const domain::PolicyParameters& parameters,
           const std::vector<domain::WhatIfAttempt>& attempts) {
  const auto machine = domain::make_policy(policy, parameters);
  return {policy, parameters, domain::what_if(*machine, attempts)};
}

domain::PolicyParameters settings_of(const WhatIfOptions& options) {
  domain::PolicyParameters settings;
  for (const auto& setting : options.settings) {
    if (!add_setting(settings, setting)) {
      throw CallError(Screen::name(setting) + " is not KEY=VALUE with a number as value", kExitUsage);
    }
  }
  return settings;
}

const v1::ScalerSummary& scaler_of(const v1::GetRunResponse& run, const WhatIfOptions& options) {
  const auto scaler = std::find_if(run.scalers().begin(), run.scalers().end(),
                                   [&](const v1::ScalerSummary& s) { return s.scaler() == options.scaler; });
  if (scaler == run.scalers().end()) {
    throw CallError(fmt::format("{} has no scaler {}: there is nothing to replay", Screen::name(options.run), options.scaler),
                    kExitNothing);
  }
  if (const auto why = refusal(scaler->policy(), {}); !why.empty()) {
    throw CallError("the policy that ran is not known here (" + Screen::name(scaler->policy()) + ")", kExitNothing);
  }
  return *scaler;
}

std::vector<double> scales_of(const std::vector<domain::WhatIfAttempt>& attempts) {
  std::vector<double> out;
  out.reserve(attempts.size());
  for (const auto& attempt : attempts) out.push_back(attempt.scale);
  return out;
}

std::vector<double> scales_of(const domain::WhatIf& result) {
  std::vector<double> out;
  out.reserve(result.steps.size());
  for (const auto& step : result.steps) out.push_back(step.scale);
  return out;
}

domain::BestSettings search(const Story& start, const WhatIfAnswer& answer, const Screen& screen) {
  if (answer.recorded.measured.empty()) {
    throw CallError(
        "no gradient was recorded, so nobody knows what other settings would have cost: there is nothing to search by",
        kExitNothing);
  }
  Progress progress("trying", "setting", 0, screen);
  auto found = domain::best_settings(start.policy, start.parameters, answer.recorded.attempts, answer.recorded.measured,
                                     answer.most_underflow, [&](std::size_t done, std::size_t) { progress.at(done); });
  if (!found) {
    throw CallError(Screen::name(start.policy) + " has no settings to search, or all of them would have ended the run",
                    kExitNothing);
  }
  return *std::move(found);
}

}  // namespace

void show_whatif(Client& client, const WhatIfOptions& options, const Screen& screen) {
  const auto settings = settings_of(options);
  v1::GetRunRequest request;
  request.set_run(options.run);
  const auto run = client.get_run(request);
  const auto& uid = run.run().run_uid();
  const auto segment = options.segment == 0 ? run.run().segment() : options.segment;
  const auto range = closed_range(client, uid, {segment, 1, 0}, kMaxAttempts);
  if (!range) {
    throw CallError(fmt::format("no attempt of segment {} is stored: there is nothing to replay", segment), kExitNothing);
  }
  // Every policy begins at the first attempt, so a long run is told of from its start.
  const RangeOptions closed{range->segment, 1, std::min(range->last, kMaxAttempts)};
  if (options.bf16) return show_whatif_bf16(client, uid, closed, options.limit, screen);

  const auto& scaler = scaler_of(run, options);
  const domain::PolicyParameters sent(scaler.parameters().begin(), scaler.parameters().end());
  const auto policy = options.policy.empty() ? scaler.policy() : options.policy;
  auto parameters = policy == scaler.policy() ? sent : domain::PolicyParameters{};
  for (const auto& [name, value] : settings) parameters[name] = value;
  if (const auto why = refusal(policy, parameters); !why.empty()) throw CallError(why, kExitUsage);

  WhatIfAnswer answer;
  answer.shown = options.limit;
  answer.recorded = read_recorded(client, uid, closed, options.scaler, screen);
  if (answer.recorded.attempts.empty()) {
    throw CallError("no attempt with a scale is stored: there is nothing to replay", kExitNothing);
  }
  const auto& attempts = answer.recorded.attempts;
  const auto tensors = answer.recorded.tensors.infos().size();
  answer.ran = told(scaler.policy(), sent, attempts);
  answer.went = domain::underflow_by_tensor(answer.recorded.measured, scales_of(attempts), tensors);
  answer.instead = told(policy, parameters, attempts);
  if (options.best) {
    domain::Underflow went;
    for (const auto& one : answer.went) went += one;
    answer.most_underflow =
        options.most_underflow ? *options.most_underflow / 100 : std::max(kHarmless, domain::worst_share(went));
    answer.search = search(answer.instead, answer, screen);
    answer.instead = {policy, answer.search->parameters, answer.search->result};
  }
  answer.went_under = domain::underflow_by_tensor(answer.recorded.measured, scales_of(answer.instead.result), tensors);
  if (screen.json) return print_whatif_json(answer, screen);
  print_whatif(answer, screen);
}

}  // namespace scalewatch::cli
