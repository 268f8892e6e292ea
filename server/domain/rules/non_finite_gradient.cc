// Non-finite gradients at an attempt that was not applied: carries the blame for whatever else fires.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

constexpr auto kNamed = "backward";

class NonFiniteGradient : public PersistedRule<NonFiniteGradient> {
 public:
  [[nodiscard]] std::string_view name() const override { return "NonFiniteGradient"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    Few<std::uint32_t> seen;
    for (const RankReport& report : attempt.joined.reports) {
      for (const ScalerReport& scaler : report.scalers) {
        if (std::find(seen.begin(), seen.end(), scaler.track) != seen.end()) continue;
        seen.push_back(scaler.track);
        const ScalerTrack& track = context.run.scalers[scaler.track];
        if (!track.guards) continue;
        const AttemptOutcome outcome =
            decide_attempt(track, scaler.seen, context.run.rank(report.rank), context.run.world_size <= 1);
        look(attempt, track, scaler.track, outcome, context);
      }
    }
    if (context.run.from_log) look_at_named(attempt, context);
  }

  template <class A>
  void persist(A& a) {
    a(states_);
  }

 private:
  struct State {
    std::uint32_t attempts = 0;
    std::uint32_t clean = 0;
    Attempt first_attempt = 0;
    std::int64_t first_step = 0;
    std::uint32_t search = 0;  // attempts in a row of the search that blame one tensor
    std::string search_tensor;
    std::deque<std::pair<Attempt, std::string>> unexplained;  // within the window, with the tensor that each blames
    template <class A>
    void persist(A& a) {
      a(attempts, clean, first_attempt, first_step, search, search_tensor, unexplained);
    }
  };

  // What a detector of the trainer's own says about the backward pass, where no skip that was seen explains it: it was asked to
  // look, and often it stops the run.
  void look_at_named(const ClosedAttempt& attempt, const RuleContext& context) const {
    const auto named = std::find_if(
        attempt.joined.non_finite.begin(), attempt.joined.non_finite.end(),
        [](const TensorAt& tensor) { return tensor.role == Role::kGradient || tensor.role == Role::kActivationGradient; });
    if (named == attempt.joined.non_finite.end() || attempt.outcome == AttemptOutcome::kSkipped) return;
    const Finding* open = context.sink.find(name(), kNamed);
    Draft draft;
    draft.rule = name();
    draft.subject = kNamed;
    draft.severity = Severity::kWarning;
    draft.first_attempt = open != nullptr ? open->first_attempt : attempt.attempt();
    draft.first_step = open != nullptr ? open->first_step : attempt.step();
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.summary = fmt::format("the trainer found {} in what {} gave in the backward pass",
                                named->nan == 0 ? "Inf" : (named->pos_inf == 0 ? "NaN" : "NaN or Inf"), named->name);
    draft.blame = attempt.blame;
    context.sink.raise(std::move(draft));
  }

  // Is it this scaler's? By found_inf, or by a gradient of one of its optimizers (or of an unknown one).
  static bool concerns(const JoinedAttempt& joined, std::uint32_t track, const RunModel& run) {
    for (const RankReport& report : joined.reports) {
      for (const ScalerReport& scaler : report.scalers) {
        if (scaler.track != track) continue;
        for (const OptimizerObservation& o : scaler.seen.optimizers) {
          if (o.found_inf_decided.value_or(0) != 0 || o.found_inf_local.value_or(0) != 0) return true;
        }
      }
    }
    return std::any_of(joined.non_finite.begin(), joined.non_finite.end(), [&](const TensorAt& tensor) {
      return tensor.role == Role::kGradient && tensor.stepped && scaler_of(tensor, run).value_or(track) == track;
    });
  }

  static std::optional<std::uint32_t> scaler_of(const TensorAt& tensor, const RunModel& run) {
    const RankInfo* rank = tensor.ranks.empty() ? nullptr : run.rank(tensor.ranks.front());
    if (tensor.optimizer.empty() || rank == nullptr) return std::nullopt;
    for (const OptimizerInfo& optimizer : rank->optimizers) {
      if (optimizer.name == tensor.optimizer && optimizer.scaler < rank->scaler_tracks.size()) {
        return rank->scaler_tracks[optimizer.scaler];
      }
    }
    return std::nullopt;
  }

  // The scale alone overflowed something in backward: forward was looked at, and is finite.
  static bool forward_is_clean(const JoinedAttempt& joined) {
    bool loss = false;
    bool activations = false;
    for (const RankReport& report : joined.reports) {
      if (loss_non_finite(report)) return false;
      loss = loss || report.loss.has_value();
      activations = activations || report.observed_activations;
    }
    return loss && activations && std::none_of(joined.non_finite.begin(), joined.non_finite.end(), [](const TensorAt& tensor) {
             return tensor.role == Role::kActivation && !only_neg_inf(tensor);
           });
  }

  void look(const ClosedAttempt& attempt, const ScalerTrack& track, std::uint32_t index, AttemptOutcome outcome,
            const RuleContext& context) {
    const Thresholds& t = context.thresholds;
    const std::string& subject = track.info.name;
    if (!concerns(attempt.joined, index, context.run)) {
      const auto found = states_.find(subject);
      if (found == states_.end() || ++found->second.clean < t.event_resolve) return;
      states_.erase(found);
      context.sink.resolve(name(), subject);
      return;
    }
    if (outcome == AttemptOutcome::kApplied) return;  // NonFiniteApplied's
    State& state = states_[subject];
    state.clean = 0;
    if (state.attempts++ == 0) {
      state.first_attempt = attempt.attempt();
      state.first_step = attempt.step();
    }
    std::uint32_t same = 0;
    auto& unexplained = state.unexplained;
    while (!unexplained.empty() && unexplained.front().first + t.non_finite_gradient_window <= attempt.attempt()) {
      unexplained.pop_front();
    }
    if (attempt.blame && !attempt.blame->tensor.empty() && track.skip_unexplained(attempt.attempt())) {
      unexplained.emplace_back(attempt.attempt(), attempt.blame->tensor);
      same = static_cast<std::uint32_t>(std::count_if(unexplained.begin(), unexplained.end(),
                                                      [&](const auto& past) { return past.second == attempt.blame->tensor; }));
    }
    // A search from an ordinary scale that goes on and on over one tensor, while forward is fine. Its first attempts say
    // nothing: a healthy run overflows at the first one in about half of all cases.
    std::uint32_t search = 0;
    if (track.calibrating() && track.init > 0 && track.init <= t.non_finite_gradient_init_scale && attempt.blame) {
      const bool same_tensor = state.search > 0 && state.search_tensor == attempt.blame->tensor;
      state.search = forward_is_clean(attempt.joined) ? (same_tensor ? state.search + 1 : 1) : 0;
      state.search_tensor = attempt.blame->tensor;
      if (!state.search_tensor.empty()) search = state.search;
    }
    const bool from_start = search >= t.non_finite_gradient_search;
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = from_start || same >= t.non_finite_gradient_one_tensor ? Severity::kWarning : Severity::kInfo;
    draft.first_attempt = state.first_attempt;
    draft.first_step = state.first_step;
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    const auto& blame = attempt.blame;
    if (blame && blame->rank_of_origin && attempt.joined.reports.size() > 1) draft.ranks = {*blame->rank_of_origin};
    draft.words = [&t, same, search, blamed = blame.has_value(), attempts = state.attempts,
                   scale = track.scale](Finding& finding) {
      finding.summary = "gradients were non-finite and the step was skipped";
      finding.evidence.clear();
      if (blamed) {
        const Blame& origin = *finding.blame;
        finding.summary += fmt::format("; {} began in {}", kind_text(origin.kind), origin_text(origin));
        // Of a loss, and of what a log names, no elements are counted.
        if (origin.tensors_non_finite > 0) {
          finding.evidence.push_back({"tensors_non_finite", static_cast<double>(origin.tensors_non_finite), "tensors", {}});
        }
        if (origin.nan + origin.inf > 0) {
          finding.evidence.push_back({"nan", static_cast<double>(origin.nan), "elements", {}});
          finding.evidence.push_back({"inf", static_cast<double>(origin.inf), "elements", {}});
        }
      }
      finding.evidence.push_back({"attempts", static_cast<double>(attempts), "attempts", {}});
      if (same > 0) {
        finding.evidence.push_back({"attempts_blaming_tensor", static_cast<double>(same), "attempts",
                                    static_cast<double>(t.non_finite_gradient_one_tensor)});
      }
      if (search > 0) {
        finding.evidence.push_back(
            {"attempts_of_search", static_cast<double>(search), "attempts", static_cast<double>(t.non_finite_gradient_search)});
      }
      if (scale) finding.evidence.push_back({"scale", *scale, "", {}});
    };
    draft.blame = blame;
    context.sink.raise(std::move(draft));
  }

  std::map<std::string, State> states_;
};

}  // namespace

std::unique_ptr<Rule> make_non_finite_gradient() {
  return std::make_unique<NonFiniteGradient>();
}

}  // namespace scalewatch::domain
