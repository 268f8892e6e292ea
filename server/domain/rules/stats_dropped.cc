// Clients measured more than they could bring here: how much, of whom, and why. One finding a cause.
//
// What sampling leaves out is no loss. That an outage thins what is older than the last reports is by design: info only.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "server/domain/rules/rules.h"
#include "server/domain/saturate.h"

namespace scalewatch::domain {
namespace {

std::string_view why(LossCause cause) {
  switch (cause) {
    case LossCause::kBufferFull:
      return "the server was out of reach for longer than the client's buffer lasts, or takes less than is sent";
    case LossCause::kQueueFull:
      return "the client's own thread fell behind the trainer";
    case LossCause::kTooLarge:
      return "a report was larger than the server takes";
    case LossCause::kRejected:
      return "the server refused them as malformed";
    case LossCause::kReconnect:
      return "after an outage only the newest reports come in full, by design";
    case LossCause::kSpoolLimit:
      return "the spool on the client's disk reached its limit";
    case LossCause::kDevice:
      return "a GPU's results did not come";
    case LossCause::kStore:
      return "the server's store lost them after they were safe there";
    case LossCause::kInternal:
    case LossCause::kNone:
      break;
  }
  return "the client had an error of its own";
}

class StatsDropped : public PersistedRule<StatsDropped> {
 public:
  [[nodiscard]] std::string_view name() const override { return "StatsDropped"; }

  void on_loss(const LossSeen& loss, const RuleContext& context) override {
    const auto [entry, fresh] = episodes_.try_emplace(loss.cause);
    Episode& episode = entry->second;
    if (fresh) {
      episode.first_attempt = loss.attempt;
      episode.first_step = context.run.last_step;
    }
    episode.last_attempt = std::max(episode.last_attempt, loss.attempt);
    episode.reports = saturating_add(episode.reports, loss.reports);
    episode.thinned += loss.thinned;
    const auto at = std::lower_bound(episode.ranks.begin(), episode.ranks.end(), loss.rank);
    const bool known = at != episode.ranks.end() && *at == loss.rank;
    if (!known && episode.ranks.size() < kMaxRanks) episode.ranks.insert(at, loss.rank);
    // Whole reports are rare and told at once; thinned ones may come at every attempt of every rank.
    episode.untold = true;
    if (loss.reports > 0) tell(loss.cause, episode, context);
  }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    for (auto entry = episodes_.begin(); entry != episodes_.end();) {
      auto& [cause, episode] = *entry;
      if (episode.untold) {
        episode.clean = 0;
        tell(cause, episode, context);
      }
      if (attempt.attempt() > episode.last_attempt && ++episode.clean >= context.thresholds.stats_dropped_resolve) {
        context.sink.resolve(name(), std::string(loss_cause_name(cause)));
        entry = episodes_.erase(entry);
      } else {
        ++entry;
      }
    }
  }

  void on_end(const RuleContext& context) override {
    for (auto& [cause, episode] : episodes_) {
      if (episode.untold) tell(cause, episode, context);
    }
  }

  template <class A>
  void persist(A& a) {
    a(episodes_);
  }

 private:
  static constexpr std::size_t kMaxRanks = 256;

  struct Episode {
    std::uint64_t reports = 0;
    std::uint64_t thinned = 0;
    Attempt first_attempt = 0;
    std::int64_t first_step = 0;
    Attempt last_attempt = 0;
    std::vector<Rank> ranks;  // rising, the first kMaxRanks
    bool untold = false;      // something came since the finding was raised
    std::uint32_t clean = 0;  // closed attempts without more of it
    template <class A>
    void persist(A& a) {
      a(reports, thinned, first_attempt, first_step, last_attempt, ranks, untold, clean);
    }
  };

  void tell(LossCause cause, Episode& episode, const RuleContext& context) {
    episode.untold = false;
    episode.clean = 0;
    Draft draft;
    draft.rule = name();
    draft.subject = loss_cause_name(cause);
    draft.severity = episode.reports == 0 && cause == LossCause::kReconnect ? Severity::kInfo : Severity::kWarning;
    draft.first_attempt = episode.first_attempt;
    draft.first_step = episode.first_step;
    draft.attempt = std::max(episode.last_attempt, episode.first_attempt);
    draft.step = context.run.last_step;
    draft.ranks = episode.ranks;
    std::string what;
    if (episode.reports > 0) what = fmt::format("{} {} never arrived", episode.reports, plural(episode.reports));
    if (episode.thinned > 0) {
      what += fmt::format("{}{} {} came without full statistics", what.empty() ? "" : ", ", episode.thinned,
                          plural(episode.thinned));
    }
    draft.summary = fmt::format("{} of {} ({}): {}", what, ranks_text(episode.ranks), loss_cause_name(cause), why(cause));
    draft.evidence = {{"reports_lost", static_cast<double>(episode.reports), "reports", {}},
                      {"reports_thinned", static_cast<double>(episode.thinned), "reports", {}}};
    context.sink.raise(std::move(draft));
  }

  static const char* plural(std::uint64_t reports) { return reports == 1 ? "report" : "reports"; }

  std::map<LossCause, Episode> episodes_;
};

}  // namespace

std::unique_ptr<Rule> make_stats_dropped() {
  return std::make_unique<StatsDropped>();
}

}  // namespace scalewatch::domain
