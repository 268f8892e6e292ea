#include "server/domain/blame.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "server/domain/blame_note.h"
#include "server/domain/found_inf.h"
#include "server/domain/scaler_track.h"

namespace scalewatch::domain {
namespace {

std::string kind_of(bool nan, bool inf) {
  return nan ? (inf ? "both" : "nan") : (inf ? "inf" : "");
}

// What only this rank, of at least two, has. Otherwise nothing, save that a single rank is always the origin.
std::optional<Rank> origin(const std::vector<Rank>& ranks) {
  return ranks.size() == 1 ? std::optional(ranks.front()) : std::nullopt;
}

std::vector<Rank> ranks_where(const JoinedAttempt& attempt, bool (*predicate)(const RankReport&)) {
  std::vector<Rank> ranks;
  for (const RankReport& report : attempt.reports) {
    if (predicate(report)) ranks.push_back(report.rank);
  }
  return ranks;
}
bool input_bad(const RankReport& report) {
  return report.input_non_finite.value_or(false);
}

// The one rank whose gradients were bad before the reduction, while all others' were known to be fine. Of a shard found_inf
// speaks of what was reduced already: it says who owns the piece, not where it began.
std::optional<Rank> lone_found_inf(const JoinedAttempt& attempt) {
  if (attempt.reports.size() < 2 || !attempt.missing.empty()) return std::nullopt;
  std::vector<Rank> ranks;
  for (const RankReport& report : attempt.reports) {
    if (!local_found_inf_known(report)) return std::nullopt;
    if (!local_found_inf(report)) continue;
    if (!report.whole_gradients) return std::nullopt;
    ranks.push_back(report.rank);
  }
  return origin(ranks);
}

class Finder {
 public:
  Finder(const JoinedAttempt& attempt, const RunModel& run, bool complete)
      : attempt_(attempt), run_(run), complete_(complete), outcome_(outcome_of(attempt, run)) {
    for (const TensorAt& tensor : attempt_.non_finite) {
      if (is_state(tensor.role)) {
        state_.push_back(&tensor);
      } else if (tensor.role == Role::kActivation) {
        const bool mask = only_neg_inf(tensor) && !tensor.neg_inf_is_new;
        if (mask && run_.masks.contains({tensor.role, tensor.name})) continue;
        (mask ? maybe_masks_ : activations_).push_back(&tensor);
      } else {
        backward_.push_back(&tensor);
      }
    }
    keep_first_micro_batch();
    loss_ranks_ = ranks_where(attempt_, loss_non_finite);
    for (const RankReport& report : attempt_.reports) {
      gradients_known_ = gradients_known_ || report.observed_gradients ||
                         any_optimizer(report, [](const OptimizerObservation& o) { return o.found_inf_decided.has_value(); });
    }
  }

  std::optional<Blame> find() const {
    if (const TensorAt* tensor = poisoned_before()) return of(*tensor, "weights");
    if (auto ranks = ranks_where(attempt_, input_bad); !ranks.empty()) {
      Blame blame;
      blame.where = "input";
      blame.rank_of_origin = origin(ranks);
      blame.ranks = std::move(ranks);
      return finish(std::move(blame));
    }
    if (auto blame = forward()) return blame;
    if (auto blame = reduction()) return blame;
    if (!backward_.empty()) return of(*backward_.front(), "backward");
    if (const TensorAt* tensor = optimizer()) return of(*tensor, gradients_known_ ? "optimizer" : "weights");
    if (auto ranks = ranks_where(attempt_, found_inf); !ranks.empty()) {
      Blame blame;
      blame.where = "backward";
      blame.rank_of_origin = lone_found_inf(attempt_);
      blame.ranks = std::move(ranks);
      return finish(std::move(blame));
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool mask(const TensorAt& tensor) const {
    return !tensor.masked.empty() || run_.masks.contains({tensor.role, tensor.name});
  }
  // Says nothing of the micro-batch in which it went bad: a gradient is added up over all, a mask is in each.
  [[nodiscard]] bool summed(const TensorAt& tensor) const { return tensor.role == Role::kGradient || mask(tensor); }

  // The micro-batches of an attempt run one after the other: what went bad in a later one is no cause. Known only where every
  // tensor that flowed tells its own; a gradient is summed over all of them.
  void keep_first_micro_batch() {
    std::optional<std::uint32_t> first;
    std::uint32_t last = 0;
    const auto look = [&](const TensorAt* tensor) {
      if (summed(*tensor)) return true;
      if (!tensor->first_bad_micro) return false;
      first = std::min(*tensor->first_bad_micro, first.value_or(*tensor->first_bad_micro));
      last = std::max(last, *tensor->first_bad_micro);
      return true;
    };
    if (!std::all_of(activations_.begin(), activations_.end(), look) ||
        !std::all_of(backward_.begin(), backward_.end(), look) || !first || *first == last) {
      return;
    }
    const auto later = [&](const TensorAt* tensor) { return summed(*tensor) || *tensor->first_bad_micro != *first; };
    std::copy_if(activations_.begin(), activations_.end(), std::back_inserter(later_), later);
    std::erase_if(activations_, later);
    std::erase_if(backward_, later);
  }

  // The state tensor whose poison this attempt's values met.
  const TensorAt* poisoned_before() const {
    const TensorAt* oldest = nullptr;
    Attempt since = 0;
    for (const TensorAt* tensor : state_) {
      const auto known = run_.poisoned.find({tensor->role, tensor->name});
      if (known == run_.poisoned.end() || (oldest != nullptr && known->second.since >= since)) continue;
      oldest = tensor;
      since = known->second.since;
    }
    if (oldest != nullptr) return oldest;
    for (const TensorAt* tensor : state_) {
      // A skipped step writes neither weights nor optimizer state; batch statistics are written by the forward pass.
      if (outcome_ == AttemptOutcome::kSkipped && tensor->role != Role::kBuffer) return tensor;
      // Nobody has looked at the state since an attempt that may have poisoned it.
      if (run_.suspect_since != 0) return tensor;
    }
    return nullptr;
  }

  std::optional<Blame> forward() const {
    const TensorAt* buffer = nullptr;
    for (const TensorAt* tensor : state_) {
      if (tensor->role == Role::kBuffer && (buffer == nullptr || tensor->forward_index < buffer->forward_index))
        buffer = tensor;
    }
    const TensorAt* activation = activations_.empty() ? nullptr : activations_.front();
    if (activation == nullptr && buffer == nullptr && !loss_ranks_.empty() && later_.empty() && !maybe_masks_.empty()) {
      activation = maybe_masks_.front();
    }
    if (activation != nullptr && (buffer == nullptr || activation->forward_index <= buffer->forward_index)) {
      return of(*activation, "forward");
    }
    if (buffer != nullptr) return of(*buffer, "forward");
    if (loss_ranks_.empty() || !later_.empty()) return std::nullopt;
    Blame blame;
    blame.where = "loss";
    bool nan = false;
    bool inf = false;
    for (const RankReport& report : attempt_.reports) {
      if (!loss_non_finite(report)) continue;
      (std::isnan(*report.loss) ? nan : inf) = true;
    }
    blame.kind = kind_of(nan, inf);
    blame.rank_of_origin = origin(loss_ranks_);
    blame.ranks = loss_ranks_;
    return finish(std::move(blame));
  }

  // Every rank's own values are finite, and what came out of the all-reduce is not.
  std::optional<Blame> reduction() const {
    if (!complete_ || attempt_.reports.size() < 2 || !attempt_.missing.empty()) return std::nullopt;
    for (const RankReport& report : attempt_.reports) {
      if (!local_found_inf_known(report) || local_found_inf(report)) return std::nullopt;
    }
    for (const TensorAt* tensor : backward_) {
      if (tensor->role == Role::kActivationGradient) return std::nullopt;
    }
    if (!gradients_non_finite(attempt_)) return std::nullopt;
    if (!backward_.empty()) return of(*backward_.front(), "reduction");
    Blame blame;
    blame.where = "reduction";
    blame.ranks = ranks_where(attempt_, found_inf);
    return finish(std::move(blame));
  }

  // Finite gradients went in, and state came out that is not: the optimizer's arithmetic. Its state comes before the weight.
  // Where nobody looked at gradients they may have brought it: then the last layer's is where backward met it first.
  const TensorAt* optimizer() const {
    if (state_.empty() || gradients_non_finite(attempt_)) return nullptr;
    const auto of_optimizer = [](const TensorAt* tensor) { return tensor->role == Role::kOptimizerState; };
    if (gradients_known_) {
      const auto first = std::find_if(state_.begin(), state_.end(), of_optimizer);
      return first != state_.end() ? *first : state_.front();
    }
    const auto last = std::find_if(state_.rbegin(), state_.rend(), of_optimizer);
    return last != state_.rend() ? *last : state_.back();
  }

  Blame of(const TensorAt& tensor, const char* where) const {
    Blame blame;
    blame.tensor = tensor.name;
    blame.role = tensor.role;
    blame.where = where;
    blame.nan = tensor.nan;
    blame.inf = tensor.pos_inf + (mask(tensor) ? 0 : tensor.neg_inf);
    blame.kind = kind_of(blame.nan > 0, blame.inf > 0);
    blame.ranks = tensor.ranks;
    // A step that was applied may have poisoned the others since.
    const auto before = run_.poisoned.find({tensor.role, tensor.name});
    if (is_state(tensor.role) && before != run_.poisoned.end()) blame.ranks = before->second.ranks;
    leave_out_later(tensor, blame.ranks);
    // After an all-reduce every rank holds the same Inf: a gradient or a weight tells nothing of where it came from.
    if (tensor.role == Role::kActivation || tensor.role == Role::kActivationGradient) {
      blame.rank_of_origin = origin(blame.ranks);
    } else if (tensor.role == Role::kGradient && blame.where == "backward") {
      blame.rank_of_origin = lone_found_inf(attempt_);
    }
    if (!mask(tensor)) blame.first_bad_micro = tensor.first_bad_micro;
    return finish(std::move(blame));
  }

  // Ranks on which the tensor is bad only because an activation of theirs went bad in a later micro-batch.
  void leave_out_later(const TensorAt& tensor, std::vector<Rank>& ranks) const {
    std::vector<Rank> own = ranks;
    std::erase_if(own, [&](Rank rank) {
      if (std::binary_search(tensor.earliest.begin(), tensor.earliest.end(), rank)) return false;
      return std::any_of(later_.begin(), later_.end(), [&](const TensorAt* later) {
        return std::binary_search(later->ranks.begin(), later->ranks.end(), rank) &&
               flows_before(later->role, later->forward_index, tensor.role, tensor.forward_index);
      });
    });
    if (!own.empty()) ranks = std::move(own);
  }

  Blame finish(Blame blame) const {
    blame.attempt = attempt_.attempt;
    blame.step = attempt_.step();
    blame.tensors_non_finite = tensors_non_finite(attempt_);
    for (const RankReport& report : attempt_.reports) {
      if (report.octaves_fallen > blame.octaves_fallen) {
        blame.fastest_falling = report.falling;
        blame.octaves_fallen = report.octaves_fallen;
      }
    }
    // A log's lines are of whoever printed them.
    if (run_.from_log) {
      blame.ranks.clear();
      blame.rank_of_origin.reset();
    }
    const bool state_seen_bad = !state_.empty();
    blame.note = blame_note(blame, {attempt_, run_, gradients_known_, state_seen_bad, doubtful_mask(blame)});
    return blame;
  }

  // An activation that may have been a mask or where it began: one of -Inf alone that was not seen before.
  const TensorAt* doubtful_mask(const Blame& blame) const {
    if (maybe_masks_.empty() || blame.where == "input" || blame.where == "weights" || blame.where == "optimizer")
      return nullptr;
    const TensorAt* mask = maybe_masks_.front();
    if (blame.where != "forward" || (blame.tensor == mask->name && blame.role == mask->role)) return mask;
    const auto blamed = std::find_if(attempt_.non_finite.begin(), attempt_.non_finite.end(), [&](const TensorAt& tensor) {
      return tensor.name == blame.tensor && tensor.role == blame.role;
    });
    return blamed != attempt_.non_finite.end() && mask->forward_index < blamed->forward_index ? mask : nullptr;
  }

  const JoinedAttempt& attempt_;
  const RunModel& run_;
  bool complete_;
  AttemptOutcome outcome_;
  bool gradients_known_ = false;
  std::vector<const TensorAt*> later_;  // activations that went bad in a later micro-batch than others
  std::vector<const TensorAt*> state_;
  std::vector<const TensorAt*> activations_;
  std::vector<const TensorAt*> maybe_masks_;
  std::vector<const TensorAt*> backward_;
  std::vector<Rank> loss_ranks_;
};

}  // namespace

bool loss_non_finite(const RankReport& report) {
  return report.loss && !std::isfinite(*report.loss);
}

bool gradients_non_finite(const JoinedAttempt& attempt) {
  return std::any_of(attempt.non_finite.begin(), attempt.non_finite.end(),
                     [](const TensorAt& tensor) { return tensor.role == Role::kGradient; }) ||
         std::any_of(attempt.reports.begin(), attempt.reports.end(), found_inf);
}

std::uint32_t tensors_non_finite(const JoinedAttempt& attempt) {
  auto total = static_cast<std::uint32_t>(attempt.non_finite.size());
  for (const RankReport& report : attempt.reports) total = std::max(total, report.non_finite_total);
  return total;
}

AttemptOutcome outcome_of(const JoinedAttempt& attempt, const RunModel& run) {
  AttemptOutcome all = AttemptOutcome::kUnknown;
  Few<std::uint32_t> seen;  // the lowest rank speaks for a scaler
  for (const RankReport& report : attempt.reports) {
    for (const ScalerReport& scaler : report.scalers) {
      if (std::find(seen.begin(), seen.end(), scaler.track) != seen.end()) continue;
      seen.push_back(scaler.track);
      all = combine(all, decide_attempt(run.scalers[scaler.track], scaler.seen, run.rank(report.rank), run.world_size <= 1));
    }
  }
  if (!seen.empty()) return all;
  const bool training =
      std::any_of(attempt.reports.begin(), attempt.reports.end(), [](const RankReport& report) { return report.training(); });
  return training ? AttemptOutcome::kApplied : AttemptOutcome::kUnknown;
}

std::optional<Rank> lone_rank(const JoinedAttempt& attempt) {
  if (attempt.reports.size() < 2) return std::nullopt;
  // Where all ranks found something it may be what the reduction gave them; of a shard it always is.
  const bool before = !std::all_of(attempt.reports.begin(), attempt.reports.end(), local_found_inf);
  std::vector<Rank> ranks;
  for (const RankReport& report : attempt.reports) {
    if (input_bad(report)) return std::nullopt;  // the data, and no GPU
    bool own = loss_non_finite(report) || (before && report.whole_gradients && local_found_inf(report));
    for (const TensorAt& tensor : attempt.non_finite) {
      if (own) break;
      const bool mask = only_neg_inf(tensor) && !tensor.neg_inf_is_new;
      if (tensor.role != Role::kActivationGradient && (tensor.role != Role::kActivation || mask)) continue;
      own = std::binary_search(tensor.ranks.begin(), tensor.ranks.end(), report.rank);
    }
    if (own) ranks.push_back(report.rank);
  }
  return origin(ranks);
}

std::optional<Blame> find_blame(const JoinedAttempt& attempt, const RunModel& run, bool complete) {
  const bool bad =
      !attempt.non_finite.empty() || std::any_of(attempt.reports.begin(), attempt.reports.end(), [](const RankReport& report) {
        return input_bad(report) || loss_non_finite(report) || found_inf(report);
      });
  if (!bad) return std::nullopt;
  return Finder(attempt, run, complete).find();
}

}  // namespace scalewatch::domain
