#include "server/domain/blame.h"

#include <algorithm>
#include <cmath>

#include "server/domain/scaler_track.h"

namespace scalewatch::domain {
namespace {

std::string kind_of(bool nan, bool inf) {
  return nan ? (inf ? "both" : "nan") : (inf ? "inf" : "");
}

bool bad(const std::optional<double>& found_inf) {
  return found_inf && *found_inf != 0;
}

template <class Predicate>
bool any_optimizer(const RankReport& report, Predicate predicate) {
  return std::any_of(report.scalers.begin(), report.scalers.end(), [&](const ScalerReport& scaler) {
    return std::any_of(scaler.seen.optimizers.begin(), scaler.seen.optimizers.end(), predicate);
  });
}

bool local_found_inf(const RankReport& report) {
  return any_optimizer(report, [](const OptimizerObservation& o) { return bad(o.found_inf_local); });
}
bool found_inf(const RankReport& report) {
  return any_optimizer(report,
                       [](const OptimizerObservation& o) { return bad(o.found_inf_local) || bad(o.found_inf_decided); });
}
bool observed_activations(const JoinedAttempt& attempt) {
  return std::any_of(attempt.reports.begin(), attempt.reports.end(),
                     [](const RankReport& report) { return report.observed_activations; });
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

class Finder {
 public:
  Finder(const JoinedAttempt& attempt, const RunModel& run, bool complete)
      : attempt_(attempt), run_(run), complete_(complete), outcome_(outcome_of(attempt, run)) {
    for (const TensorAt& tensor : attempt_.non_finite) {
      if (is_state(tensor.role)) {
        state_.push_back(&tensor);
      } else if (tensor.role == Role::kActivation) {
        if (run_.masks.contains({tensor.role, tensor.name}) && only_neg_inf(tensor)) continue;
        (only_neg_inf(tensor) ? maybe_masks_ : activations_).push_back(&tensor);
      } else {
        backward_.push_back(&tensor);
      }
    }
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
      blame.ranks = std::move(ranks);
      return finish(std::move(blame));
    }
    return std::nullopt;
  }

 private:
  // The state tensor whose poison this attempt's values met.
  const TensorAt* poisoned_before() const {
    for (const TensorAt* tensor : state_) {
      if (run_.poisoned.contains({tensor->role, tensor->name})) return tensor;
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
    if (activation == nullptr && buffer == nullptr && !loss_ranks_.empty() && !maybe_masks_.empty()) {
      activation = maybe_masks_.front();
    }
    if (activation != nullptr && (buffer == nullptr || activation->forward_index <= buffer->forward_index)) {
      return of(*activation, "forward");
    }
    if (buffer != nullptr) return of(*buffer, "forward");
    if (loss_ranks_.empty()) return std::nullopt;
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
    bool known = true;
    for (const RankReport& report : attempt_.reports) {
      bool local = false;
      for (const ScalerReport& scaler : report.scalers) {
        for (const OptimizerObservation& o : scaler.seen.optimizers) {
          if (!o.found_inf_local || *o.found_inf_local != 0) return std::nullopt;
          local = true;
        }
      }
      known = known && local;
    }
    if (!known) return std::nullopt;
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
  const TensorAt* optimizer() const {
    if (state_.empty() || gradients_non_finite(attempt_)) return nullptr;
    const auto first = std::find_if(state_.begin(), state_.end(),
                                    [](const TensorAt* tensor) { return tensor->role == Role::kOptimizerState; });
    return first != state_.end() ? *first : state_.front();
  }

  Blame of(const TensorAt& tensor, const char* where) const {
    Blame blame;
    blame.tensor = tensor.name;
    blame.role = tensor.role;
    blame.where = where;
    blame.kind = kind_of(tensor.nan > 0, tensor.pos_inf + tensor.neg_inf > 0);
    blame.nan = tensor.nan;
    blame.inf = tensor.pos_inf + tensor.neg_inf;
    blame.ranks = tensor.ranks;
    // After an all-reduce every rank holds the same Inf: a gradient or a weight tells nothing of where it came from.
    if (tensor.role == Role::kActivation || tensor.role == Role::kActivationGradient) {
      blame.rank_of_origin = origin(tensor.ranks);
    }
    return finish(std::move(blame));
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
    blame.note = note(blame);
    return blame;
  }

  std::string note(const Blame& blame) const {
    const bool forward_unseen = !observed_activations(attempt_);
    if (blame.where == "weights") {
      if (!gradients_known_) return "send gradient records to know whether the update or the optimizer poisoned them";
      if (!run_.poisoned.contains({blame.role, blame.tensor})) {
        return "send parameters every attempt to know at which one they went non-finite";
      }
      return {};
    }
    if (run_.suspect_since != 0 && state_.empty()) {
      return std::string("attempt ") + std::to_string(run_.suspect_since) +
             " may have put non-finite gradients into the weights: send parameters to know whether they are poisoned";
    }
    if (blame.where == "backward" && blame.tensor.empty()) {
      return forward_unseen ? "send gradient records to name the tensor, and activations to know whether the forward pass "
                              "overflowed first"
                            : "send gradient records to name the tensor";
    }
    if (blame.where == "backward" && forward_unseen) {
      return "send activations to know whether the forward pass overflowed first";
    }
    if (blame.where == "backward" && blame.role == Role::kGradient) {
      const bool gradients_of_activations = std::any_of(
          backward_.begin(), backward_.end(), [](const TensorAt* tensor) { return tensor->role == Role::kActivationGradient; });
      if (!gradients_of_activations && attempt_.reports.size() > 1) {
        return "send activation gradients to know on which rank it began";
      }
    }
    if (blame.where == "loss" && forward_unseen) {
      return "send activations to know whether a layer before the loss went non-finite first";
    }
    if (blame.where == "reduction" && blame.tensor.empty()) return "send gradient records to name the tensor";
    return {};
  }

  const JoinedAttempt& attempt_;
  const RunModel& run_;
  bool complete_;
  AttemptOutcome outcome_;
  bool gradients_known_ = false;
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
  std::vector<std::uint32_t> seen;  // the lowest rank speaks for a scaler
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
  std::vector<Rank> ranks;
  for (const RankReport& report : attempt.reports) {
    bool own = loss_non_finite(report) || local_found_inf(report);
    for (const TensorAt& tensor : attempt.non_finite) {
      if (own) break;
      if (tensor.role != Role::kActivationGradient && (tensor.role != Role::kActivation || only_neg_inf(tensor))) continue;
      own = std::binary_search(tensor.ranks.begin(), tensor.ranks.end(), report.rank);
    }
    if (own) ranks.push_back(report.rank);
  }
  return origin(ranks);
}

std::optional<Blame> find_blame(const JoinedAttempt& attempt, const RunModel& run, bool complete) {
  return Finder(attempt, run, complete).find();
}

}  // namespace scalewatch::domain
