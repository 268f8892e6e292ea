// Ranks that should have decided the same did not, or copies of a parameter differ.
#include <fmt/core.h>

#include <bit>
#include <cmath>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

// One decided value by rank. NaN equals NaN: ranks that agree on a broken scale agree.
class Ballot {
 public:
  void add(Rank rank, double value) { votes_[std::isnan(value) ? kNan : std::bit_cast<std::uint64_t>(value)].push_back(rank); }
  [[nodiscard]] bool split() const { return votes_.size() > 1; }
  // What most ranks (on a tie: the lowest) say, and the rest.
  struct Result {
    double usual = 0;
    double other = 0;
    std::vector<Rank> deviating;
  };
  [[nodiscard]] Result result() const {
    const auto usual = std::max_element(votes_.begin(), votes_.end(), [](const auto& a, const auto& b) {
      return a.second.size() != b.second.size() ? a.second.size() < b.second.size() : a.second.front() > b.second.front();
    });
    Result result;
    result.usual = std::bit_cast<double>(usual->first);
    for (const auto& [value, ranks] : votes_) {
      if (value == usual->first) continue;
      if (result.deviating.empty()) result.other = std::bit_cast<double>(value);
      result.deviating.insert(result.deviating.end(), ranks.begin(), ranks.end());
    }
    std::sort(result.deviating.begin(), result.deviating.end());
    return result;
  }

 private:
  static constexpr std::uint64_t kNan = 0x7ff8000000000000u;
  std::map<std::uint64_t, std::vector<Rank>> votes_;
};

class RankDisagreement : public PersistedRule<RankDisagreement> {
 public:
  [[nodiscard]] std::string_view name() const override { return "RankDisagreement"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    told(attempt, context);
    if (attempt.joined.reports.size() < 2 || context.run.may_be_two_jobs()) return;
    std::map<std::uint32_t, std::vector<const RankReport*>> groups;
    for (const RankReport& report : attempt.joined.reports) {
      for (const ScalerReport& scaler : report.scalers) groups[scaler.track].push_back(&report);
    }
    for (const auto& [track, reports] : groups) {
      if (reports.size() >= 2) look(attempt, track, reports, context);
    }
    replicas(attempt, context);
  }

  template <class A>
  void persist(A& a) {
    a(episodes_);
  }

 private:
  // A log's own lines say so.
  void told(const ClosedAttempt& attempt, const RuleContext& context) {
    static const std::string kSubject = "log";
    for (const RankReport& report : attempt.joined.reports) {
      for (const RankDifference& difference : report.rank_differences) {
        std::vector<Rank> ranks;
        for (const auto& rank : {difference.first, difference.other}) {
          if (rank) ranks.push_back(*rank);
        }
        std::sort(ranks.begin(), ranks.end());
        const bool parameters = difference.what == "parameters";
        const std::string what = parameters && !difference.tensor.empty() ? fmt::format("parameter {}", difference.tensor)
                                                                          : fmt::format("the {}", difference.what);
        const std::string where = ranks.size() == 2 ? fmt::format("on ranks {} and {}", ranks[0], ranks[1]) : "on all ranks";
        std::string summary = fmt::format("{} {} not the same {} at step {}", what,
                                          parameters && difference.tensor.empty() ? "are" : "is", where, attempt.step());
        std::vector<Evidence> evidence;
        if (difference.first_value && difference.other_value) {
          summary += fmt::format(": {} against {}", number_text(*difference.first_value), number_text(*difference.other_value));
          evidence.push_back({difference.what + "_of_most", *difference.first_value, "", {}});
          evidence.push_back({difference.what + "_of_others", *difference.other_value, "", {}});
        }
        if (!difference.detail.empty()) summary += fmt::format(" (\"{}\")", difference.detail);
        fire(attempt, parameters ? "replicas" : kSubject, std::move(ranks), std::move(summary), std::move(evidence), context);
      }
    }
  }

  void look(const ClosedAttempt& attempt, std::uint32_t index, const std::vector<const RankReport*>& reports,
            const RuleContext& context) {
    const ScalerTrack& track = context.run.scalers[index];
    Ballot before;
    Ballot after;
    std::map<std::string, Ballot> found;
    std::map<std::string, Ballot> outcomes;
    for (const RankReport* report : reports) {
      const RankInfo* rank = context.run.rank(report->rank);
      for (const ScalerReport& scaler : report->scalers) {
        if (scaler.track != index) continue;
        if (scaler.seen.scale_before) before.add(report->rank, *scaler.seen.scale_before);
        if (scaler.seen.scale_after) after.add(report->rank, *scaler.seen.scale_after);
        for (const OptimizerObservation& o : scaler.seen.optimizers) {
          const OptimizerInfo* info = rank != nullptr ? rank->optimizer(o.optimizer) : nullptr;
          const bool fused = info != nullptr && info->fused;
          const std::string key = info != nullptr ? info->name : std::to_string(o.optimizer);
          // A count above 0 means the same whatever it is, save to a fused kernel.
          if (o.found_inf_decided) {
            const bool same = !fused && *o.found_inf_decided != 0;
            found[key].add(report->rank, same ? 1 : *o.found_inf_decided + 0.0);
          }
          const Outcome outcome = decide_outcome(track, scaler.seen, &o, fused, false);
          if (outcome != Outcome::kUnknown) outcomes[key].add(report->rank, static_cast<double>(outcome));
        }
      }
    }
    const std::string& subject = track.info.name;
    const auto disagree = [&](const char* what, const Ballot& ballot) {
      if (!ballot.split()) return false;
      const Ballot::Result result = ballot.result();
      const std::string_view name_of = what;
      const auto show = [&](double value) {
        if (name_of == "scale") return scale_text(value);
        if (name_of == "outcome") return std::string(value == static_cast<double>(Outcome::kSkipped) ? "skipped" : "applied");
        return number_text(value);
      };
      fire(attempt, subject, result.deviating,
           fmt::format("{} {} from the other {} ranks in the {} of {}: {} against {}", ranks_text(result.deviating),
                       result.deviating.size() == 1 ? "differs" : "differ", reports.size() - result.deviating.size(), what,
                       scaler_text(subject), show(result.other), show(result.usual)),
           {{std::string(what) + "_of_most", result.usual, "", {}}, {std::string(what) + "_of_others", result.other, "", {}}},
           context);
      return true;
    };
    if (disagree("scale", before)) return;
    // What was decided comes before the scale that follows from it.
    for (const auto& [optimizer, ballot] : found) {
      if (disagree("found_inf", ballot)) return;
    }
    if (disagree("scale", after)) return;
    for (const auto& [optimizer, ballot] : outcomes) {
      if (disagree("outcome", ballot)) return;
    }
    if (episodes_.clean(subject, context.thresholds.event_resolve)) context.sink.resolve(name(), subject);
  }

  void replicas(const ClosedAttempt& attempt, const RuleContext& context) {
    static const std::string kSubject = "replicas";
    const auto& mismatches = attempt.joined.mismatches;
    if (attempt.joined.replicas_compared == 0) return;
    if (mismatches.empty()) {
      if (episodes_.clean(kSubject, context.thresholds.event_resolve)) context.sink.resolve(name(), kSubject);
      return;
    }
    std::vector<Rank> ranks;
    for (const ReplicaMismatch& mismatch : mismatches) {
      for (const Rank rank : {mismatch.first, mismatch.other}) {
        if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
      }
    }
    std::sort(ranks.begin(), ranks.end());
    fire(attempt, kSubject, ranks,
         fmt::format("parameter {} is not the same on ranks {} and {}: replicas drift apart", mismatches.front().tensor,
                     mismatches.front().first, mismatches.front().other),
         {{"mismatches", static_cast<double>(mismatches.size()), "tensors", {}},
          {"compared", static_cast<double>(attempt.joined.replicas_compared), "tensors", {}}},
         context);
  }

  void fire(const ClosedAttempt& attempt, const std::string& subject, std::vector<Rank> ranks, std::string summary,
            std::vector<Evidence> evidence, const RuleContext& context) {
    episodes_.fired(subject);
    const Finding* open = context.sink.find(name(), subject);
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.severity = Severity::kCritical;
    draft.first_attempt = open != nullptr ? open->first_attempt : attempt.attempt();
    draft.first_step = open != nullptr ? open->first_step : attempt.step();
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.ranks = std::move(ranks);
    draft.summary = std::move(summary);
    draft.evidence = std::move(evidence);
    context.sink.raise(std::move(draft));
  }

  Episodes episodes_;
};

}  // namespace

std::unique_ptr<Rule> make_rank_disagreement() {
  return std::make_unique<RankDisagreement>();
}

}  // namespace scalewatch::domain
