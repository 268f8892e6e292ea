// Which alerts are told to which sink, and when: grouping, escalation, repetition, the limit of pages and its digest.
//
// Reconciles: an alert holds what people were told of it by sink (Alert.pages), so what is still owed follows from the alerts
// alone, also after a restart. What it owes becomes outbox rows, whose keys are
//   ID/firing, ID/escalated:SEVERITY, ID/repeated:N, ID/digest:N, ID/acknowledged, ID/resolved
// with N the count of pages. Not thread-safe: the alert book guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/alerting/alert_life.h"
#include "server/alerting/matchers.h"
#include "server/alerting/sink_config.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::alerting {

struct Now {
  std::int64_t wall = 0;    // Unix milliseconds: what is stored
  std::int64_t steady = 0;  // timers
};

class Pager {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  // Configs must have passed validate().
  Pager(const std::vector<SinkConfig>& sinks, const BookOptions& options);

  // Other sinks and options. What a lane remembers, and what waits, goes on by the sinks' names.
  void reconfigure(const std::vector<SinkConfig>& sinks, const BookOptions& options,
                   std::unordered_map<std::string, RunAlerts>& runs);

  // After an alert has changed: tells the programs, and notes since when a page waits for people.
  void changed(AlertEntry& entry, Now now, engine::CommitBatch& batch);
  // Somebody is on it now: sinks that take acknowledgements and were told of the alert hear of it, each once.
  void acknowledged(const AlertEntry& entry, engine::CommitBatch& batch) const;
  // These alerts of one run have resolved: whoever was told of one hears of it. One that goes while its group's page waits
  // stays a part of it: its `waiting` says so afterwards, and it must be given to hold().
  void resolved(const std::vector<AlertEntry*>& entries, Now now, engine::CommitBatch& batch);
  // Keeps a resolved alert until its group's page went.
  void hold(AlertEntry entry);
  // The same for one that the store kept so: who waits for its page is worked out anew.
  void hold_again(AlertEntry entry, Now now);
  // The run's alert that it holds is open again.
  void unhold(const std::string& run_uid, const std::string& id);
  // The run's alerts are another server's matter, those that it holds too.
  void forget(const std::string& run_uid);
  [[nodiscard]] bool holds(const std::string& run_uid) const { return held_.contains(run_uid); }
  // Those that no page waits for any longer: they leave.
  std::vector<AlertEntry> release();
  // Pages for people that are due by now. `touched` is called for every alert that was told. `runs` must have an element for
  // each run that holds() something, which may be empty.
  using Touched = std::function<void(AlertEntry&)>;
  void turn(std::unordered_map<std::string, RunAlerts>& runs, Now now, engine::CommitBatch& batch, const Touched& touched);
  // When turn() should be called next if nothing changes before; steady milliseconds.
  [[nodiscard]] std::int64_t next() const { return next_; }
  // The wall clock was set: what is due is not what it was.
  void look_again() { next_ = 0; }

 private:
  struct Lane {
    std::string sink;
    domain::Severity min_severity = domain::Severity::kNone;
    Matchers match;
    bool group = true;
    bool acknowledges = false;       // hears of acknowledgements
    std::uint32_t per_minute = 0;    // 0 = no limit
    std::deque<std::int64_t> paged;  // steady: pages of the last minute
    std::int64_t digest_at = 0;      // steady: the limit is reached until then; 0 = it is not
    std::vector<v1::Alert> missed;   // came and went meanwhile; at most kMaxMissed
    std::uint64_t missed_total = 0;
  };
  struct Due {
    AlertEntry* entry = nullptr;
    std::string transition;
  };

  // False: a program, which gets every alert on its own and at once.
  static bool is_people(const Lane& lane) { return lane.group || lane.per_minute > 0; }
  // Whether the sink hears of alerts like this one.
  static bool takes(const Lane& lane, const AlertRules& rules, const v1::Alert& alert);
  // What the sink is to be told of the alert now; empty: nothing.
  [[nodiscard]] std::string owed(const Lane& lane, const AlertRules& rules, const v1::Alert& alert, Now now) const;
  void page(Lane& lane, std::vector<Due> due, bool digest, Now now, engine::CommitBatch& batch, const Touched& touched);
  void turn_lane(std::size_t index, std::unordered_map<std::string, RunAlerts>& runs, Now now, engine::CommitBatch& batch,
                 const Touched& touched);
  // Whether one more page may go now.
  static bool has_room(Lane& lane, std::int64_t steady);
  // It came and went: the digest speaks of it.
  static void miss(Lane& lane, const v1::Alert& alert);
  // The resolves of these, worst first.
  static void tell_resolved(const Lane& lane, const std::vector<const v1::Alert*>& alerts, Now now, engine::CommitBatch& batch);
  void wake_at(std::int64_t steady) { next_ = std::min(next_, steady); }

  static Lane make_lane(const SinkConfig& sink);

  BookOptions options_;
  std::vector<Lane> lanes_;
  std::unordered_map<std::string, RunAlerts> held_;  // by run_uid: resolved, but part of a page that waits
  std::size_t held_total_ = 0;
  std::int64_t next_ = 0;
};

// An outbox row of one alert. Maps in a fixed order: equal alerts are equal bytes.
engine::OutboxRow outbox_row(const std::string& sink, const v1::Alert& alert, const std::string& transition,
                             std::int64_t created_ms);
std::string bytes_of(const v1::Alert& alert);

}  // namespace scalewatch::alerting
