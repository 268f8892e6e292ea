// Which tensors lead by a statistic, as their records and bounds come in. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/history/scores.h"

namespace scalewatch::history {

// The records that lead so far, by position in the catalog.
class Leaders {
 public:
  Leaders(By::By by, std::size_t tensors) : by_(by), leaders_(tensors), bounds_(tensors) {}

  struct Leader {
    std::optional<double> best;
    double sum = 0;
    std::uint64_t attempt = 0;
    Measured worst;
  };

  // Of equal ones the newest leads.
  void take(std::uint32_t tensor, std::uint64_t attempt, const Measured& measured, bool count = true) {
    const auto value = score(by_, measured);
    if (!value) return;
    Leader& leader = leaders_[tensor];
    if (count) leader.sum += *value;
    if (leader.best && (*value < *leader.best || (*value == *leader.best && attempt < leader.attempt))) return;
    leader.best = value;
    leader.attempt = attempt;
    leader.worst = measured;
  }
  // Of what was not read record by record.
  void take_bound(std::uint32_t tensor, const ScoreBound& more) {
    ScoreBound& bound = bounds_[tensor];
    const auto join = [&](double a, double b) { return adds(by_) && a > 0 && b > 0 ? a + b : std::max(a, b); };
    bound.exact = join(bound.exact, more.exact);
    bound.most = join(bound.most, more.most);
  }
  // At least what the tensor is ranked by.
  [[nodiscard]] std::optional<double> most(std::uint32_t tensor) const {
    const ScoreBound& bound = bounds_[tensor];
    if (adds(by_)) {
      const double all = leaders_[tensor].sum + std::max(bound.exact, 0.0) + std::max(bound.most, 0.0);
      return all > 0 ? std::optional(all) : std::nullopt;
    }
    const double all = std::max({leaders_[tensor].best.value_or(ScoreBound::kNone), bound.exact, bound.most});
    return all > ScoreBound::kNone ? std::optional(all) : std::nullopt;
  }
  // Whether the tensor's records must be read before most() is what it is ranked by. `records`: also for which one leads.
  [[nodiscard]] bool is_open(std::uint32_t tensor, bool records) const {
    const ScoreBound& bound = bounds_[tensor];
    if (records) return std::max(bound.exact, bound.most) > ScoreBound::kNone;
    const double known = std::max(leaders_[tensor].best.value_or(ScoreBound::kNone), bound.exact);
    return adds(by_) ? bound.most > 0 : bound.most > known;
  }
  // Its records are read next: what they tell stands for the bounds.
  void close(std::uint32_t tensor, bool records) {
    bounds_[tensor].most = ScoreBound::kNone;
    if (records || adds(by_)) bounds_[tensor].exact = ScoreBound::kNone;
  }
  Leader& operator[](std::uint32_t tensor) { return leaders_[tensor]; }
  [[nodiscard]] std::size_t size() const { return leaders_.size(); }

 private:
  const By::By by_;
  std::vector<Leader> leaders_;
  std::vector<ScoreBound> bounds_;
};

}  // namespace scalewatch::history
