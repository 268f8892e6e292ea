#include "server/domain/whatif_best.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace scalewatch::domain {

namespace {

// What one parameter may be, its value of the run first.
struct Knob {
  std::string name;
  std::vector<double> values;
};

// The names that frameworks have for the same thing; a policy listens to at most one of each line, or takes them for the same.
const std::vector<std::string> kInit{"init_scale",        "initial_scale", "init_loss_scale",
                                     "init_loss_scaling", "loss_scale",    "scale"};
const std::vector<std::string> kInterval{"growth_interval", "scale_window", "incr_every_n_steps", "dynamic_growth_steps",
                                         "period"};
const std::vector<std::string> kBackoff{"backoff_factor", "decr_ratio"};
const std::vector<std::string> kHysteresis{"hysteresis", "delayed_shift", "decr_every_n_nan_or_inf"};

// The parameter that the run gave wins over another name of the same thing: a policy takes the first that it knows.
void add_knob(std::vector<Knob>& knobs, const std::vector<std::string>& names, const std::vector<std::string>& known,
              const PolicyParameters& ran, double now, const std::vector<double>& values) {
  const auto listens = [&](const std::string& name) { return std::find(known.begin(), known.end(), name) != known.end(); };
  auto name = std::find_if(names.begin(), names.end(), [&](const std::string& n) { return ran.contains(n) && listens(n); });
  if (name == names.end()) name = std::find_if(names.begin(), names.end(), listens);
  if (name == names.end()) return;
  Knob knob{*name, {now}};
  for (const double value : values) {
    if (value != now) knob.values.push_back(value);
  }
  knobs.push_back(std::move(knob));
}

std::vector<Knob> knobs_of(const std::string& policy, const PolicyParameters& ran) {
  const auto machine = make_policy(policy, ran);
  const auto known = check_parameters(policy, ran);
  std::vector<Knob> out;
  if (machine == nullptr || !known || !machine->dynamic()) return out;
  std::vector<double> scales;
  for (int octave = 0; octave <= 24; octave += 2) scales.push_back(std::ldexp(1, octave));
  add_knob(out, kInit, known->known, ran, machine->init_scale(), scales);
  if (const auto interval = machine->growth_interval())
    add_knob(out, kInterval, known->known, ran, static_cast<double>(*interval), {50, 200, 500, 1000, 2000, 5000, 10'000});
  add_knob(out, kBackoff, known->known, ran, machine->backoff_factor(), {0.5, 0.25, 0.75});
  add_knob(out, kHysteresis, known->known, ran, machine->hysteresis(), {1, 2, 4});
  return out;
}

// The largest number of subnormal elements at each attempt under each power of two, so that a candidate costs one look an
// attempt. A scale in between counts as the power below it, under which more is lost: still a bound.
class Table {
 public:
  Table(const std::vector<Measured>& measured, std::size_t attempts) : rows_(attempts) {
    for (const auto& one : measured) {
      if (one.attempt >= attempts || one.spread.target == DType::kUnspecified) continue;
      auto& row = rows_[one.attempt];
      row.elements += static_cast<float>(one.spread.elements);
      for (int octave = kFirst; octave <= kLast; ++octave) {
        row.lost[static_cast<std::size_t>(octave - kFirst)] +=
            static_cast<float>(underflow(one.spread, one.spread.target, std::ldexp(1, octave)).subnormal.high);
      }
    }
  }

  [[nodiscard]] double share(const std::vector<WhatIfStep>& steps) const {
    double lost = 0;
    double elements = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto& row = rows_[i];
      if (row.elements <= 0) continue;
      const double scale = steps[i].scale;
      const int octave = scale > 0 && std::isfinite(scale) ? std::min(kLast, std::ilogb(scale)) : kFirst - 1;
      elements += static_cast<double>(row.elements);
      lost += static_cast<double>(octave < kFirst ? row.elements : row.lost[static_cast<std::size_t>(octave - kFirst)]);
    }
    return elements > 0 ? lost / elements : 0;
  }

 private:
  static constexpr int kFirst = -16;
  static constexpr int kLast = 40;
  struct Row {
    float elements = 0;
    std::array<float, kLast - kFirst + 1> lost{};
  };
  std::vector<Row> rows_;
};

}  // namespace

std::optional<BestSettings> best_settings(const std::string& policy, const PolicyParameters& ran,
                                          const std::vector<WhatIfAttempt>& attempts, const std::vector<Measured>& measured,
                                          double most_underflow,
                                          const std::function<void(std::size_t, std::size_t)>& progress) {
  const auto knobs = knobs_of(policy, ran);
  if (knobs.empty() || attempts.empty()) return std::nullopt;
  const Table table(measured, attempts.size());
  std::size_t all = 1;
  for (const auto& knob : knobs) all *= knob.values.size();
  std::optional<BestSettings> best;
  using Rank = std::tuple<bool, double, std::uint64_t, std::uint64_t, double, std::size_t>;
  Rank least;
  for (std::size_t candidate = 0; candidate < all; ++candidate) {
    if (progress) progress(candidate, all);
    auto parameters = ran;
    std::size_t rest = candidate;
    std::size_t changed = 0;
    for (const auto& knob : knobs) {
      const auto pick = rest % knob.values.size();
      rest /= knob.values.size();
      if (pick == 0) continue;
      parameters[knob.name] = knob.values[pick];
      ++changed;
    }
    auto result = what_if(*make_policy(policy, parameters), attempts);
    if (result.ended) continue;
    const double underflow = table.share(result.steps);
    const bool beyond = underflow > most_underflow;
    const Rank rank{beyond, beyond ? underflow : 0, result.skipped, result.undecided, underflow, changed};
    if (best && !(rank < least)) continue;
    least = rank;
    best = BestSettings{std::move(parameters), std::move(result), underflow, {}, all, !beyond};
  }
  if (best) {
    for (const auto& knob : knobs) best->searched.push_back(knob.name);
  }
  return best;
}

}  // namespace scalewatch::domain
