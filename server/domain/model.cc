#include "server/domain/model.h"

#include <algorithm>
#include <tuple>

#include "server/domain/saturate.h"

namespace scalewatch::domain {

void LossTally::add_reports(std::uint64_t first, std::uint64_t last) {
  reports = saturating_add(reports, last - first + 1);
  if (last_seq == 0 || first != last_seq + 1) first_seq = first;
  last_seq = last;
}

void LossTally::add_thinned(Attempt attempt) {
  ++thinned;
  if (last_attempt == 0 || attempt != last_attempt + 1) first_attempt = attempt;
  last_attempt = attempt;
}

const PastBlame* RunModel::usual_blame(Attempt attempt) const {
  const auto same = [](const Blame& a, const Blame& b) {
    return std::tie(a.where, a.tensor, a.role) == std::tie(b.where, b.tensor, b.role);
  };
  const PastBlame* best = nullptr;
  std::ptrdiff_t best_count = 0;
  for (auto candidate = blames.rbegin(); candidate != blames.rend(); ++candidate) {
    if (candidate->attempt + kBlameReach < attempt) break;
    if (best != nullptr && same(best->blame, candidate->blame)) continue;  // counted already
    const auto count = std::count_if(blames.begin(), blames.end(), [&](const PastBlame& past) {
      return past.attempt + kBlameReach >= attempt && same(past.blame, candidate->blame);
    });
    if (count > best_count) {
      best = &*candidate;
      best_count = count;
    }
  }
  return best;
}

std::uint32_t RunModel::lone_attempts(Rank wanted) const {
  return static_cast<std::uint32_t>(
      std::count_if(blames.begin(), blames.end(), [&](const PastBlame& past) { return past.lone_rank == wanted; }));
}

std::optional<double> RunModel::learning_rate() const {
  if (lr) return lr;
  for (const auto& [number, info] : ranks) {
    for (const OptimizerInfo& optimizer : info.optimizers) {
      if (optimizer.lr) return optimizer.lr;
    }
  }
  return std::nullopt;
}

}  // namespace scalewatch::domain
