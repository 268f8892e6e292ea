// Some ranks are silent while others still beat. One finding a host: what is lost together is told together.
#include <fmt/core.h>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class RankLost : public PersistedRule<RankLost> {
 public:
  [[nodiscard]] std::string_view name() const override { return "RankLost"; }

  void on_liveness(const Liveness& liveness, const RuleContext& context) override {
    const Thresholds& t = context.thresholds;
    bool alive = false;
    std::map<std::string, std::vector<Liveness::Seen>> silent;
    std::vector<Rank> back;
    for (const Liveness::Seen& seen : liveness.ranks) {
      const TimeMs silence = liveness.now - seen.last_seen;
      if (silence >= t.rank_lost_after_ms) {
        silent[host(seen.rank, context.run)].push_back(seen);
      } else {
        back.push_back(seen.rank);
        alive = alive || silence <= t.rank_alive_within_ms;
      }
    }
    for (const Rank rank : back) forget(rank, context);
    if (!alive) return;  // all gone is another rule's, and in between nothing is decided
    for (const auto& [where, ranks] : silent) fire(where, ranks, liveness, context);
  }

  void on_left(Rank rank, const RuleContext& context) override { forget(rank, context); }

  template <class A>
  void persist(A& a) {
    a(lost_);
  }

 private:
  static std::string host(Rank rank, const RunModel& run) {
    const RankInfo* info = run.rank(rank);
    return info != nullptr ? info->host : std::string();
  }

  void forget(Rank rank, const RuleContext& context) {
    for (auto entry = lost_.begin(); entry != lost_.end();) {
      auto& ranks = entry->second;
      if (std::erase(ranks, rank) > 0 && ranks.empty()) {
        context.sink.resolve(name(), entry->first);
        entry = lost_.erase(entry);
      } else {
        ++entry;
      }
    }
  }

  void fire(const std::string& where, const std::vector<Liveness::Seen>& ranks, const Liveness& liveness,
            const RuleContext& context) {
    Draft draft;
    draft.rule = name();
    draft.subject = where;
    draft.severity = Severity::kCritical;
    TimeMs longest = 0;
    Attempt last_attempt = context.run.newest;
    std::size_t disconnected = 0;
    for (const Liveness::Seen& seen : ranks) {
      draft.ranks.push_back(seen.rank);
      longest = std::max(longest, liveness.now - seen.last_seen);
      disconnected += seen.connected ? 0 : 1;
      if (const RankInfo* info = context.run.rank(seen.rank)) last_attempt = std::min(last_attempt, info->last_attempt);
    }
    std::sort(draft.ranks.begin(), draft.ranks.end());
    lost_[where] = draft.ranks;
    const Finding* open = context.sink.find(name(), where);
    draft.first_attempt = open != nullptr ? open->first_attempt : last_attempt;
    draft.first_step = open != nullptr ? open->first_step : context.run.last_step;
    draft.attempt = context.run.newest;
    draft.step = context.run.last_step;
    draft.summary =
        fmt::format("{}{} silent for {} s while other ranks still beat; last heard of at attempt {}", ranks_text(draft.ranks),
                    (where.empty() ? std::string() : " on host " + where) + (ranks.size() == 1 ? " is" : " are"),
                    longest / 1000, last_attempt);
    draft.evidence = {{"silent", static_cast<double>(longest) / 1000, "seconds",
                       static_cast<double>(context.thresholds.rank_lost_after_ms) / 1000},
                      {"ranks_lost", static_cast<double>(ranks.size()), "ranks", {}},
                      {"disconnected", static_cast<double>(disconnected), "ranks", {}},
                      {"last_attempt", static_cast<double>(last_attempt), "", {}}};
    context.sink.raise(std::move(draft));
  }

  std::map<std::string, std::vector<Rank>> lost_;  // by host
};

}  // namespace

std::unique_ptr<Rule> make_rank_lost() {
  return std::make_unique<RankLost>();
}

}  // namespace scalewatch::domain
