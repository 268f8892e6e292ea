// A shared history in memory, and what feeds it from a store.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/history/shared_history.h"
#include "tests/unit/engine/fakes.h"

namespace scalewatch::fleet::testing {

using engine::testing::MemoryStore;

// Replaces what `to` has of a run.
inline bool copy_run(const std::string& uid, MemoryStore& from, MemoryStore& to) {
  const std::scoped_lock lock(from.mutex, to.mutex);
  if (!from.runs.contains(uid)) return false;
  const auto is_of_run = [&](const auto& each) { return std::get<0>(each.first) == uid; };
  std::erase_if(to.incarnation_rows, is_of_run);
  std::erase_if(to.table_rows, is_of_run);
  std::erase_if(to.seqs, [&](const auto& each) { return std::get<0>(each.first) == uid; });
  to.snapshots.erase(uid);
  to.runs[uid] = from.runs[uid];
  to.log[uid] = from.log[uid];
  if (from.snapshots.contains(uid)) to.snapshots[uid] = from.snapshots[uid];
  for (const auto& each : from.incarnation_rows) {
    if (is_of_run(each)) to.incarnation_rows.insert(each);
  }
  for (const auto& each : from.table_rows) {
    if (is_of_run(each)) to.table_rows.insert(each);
  }
  for (const auto& each : from.seqs) {
    if (std::get<0>(each.first) == uid) to.seqs.insert(each);
  }
  return true;
}

// `store`'s lock is held.
inline std::uint64_t last_place_in(MemoryStore& store, const std::string& uid) {
  const auto& log = store.log[uid];
  return log.empty() ? 0 : log.rbegin()->first;
}

class FakeShared final : public history::SharedHistory {
 public:
  std::vector<history::SharedRun> list_runs(std::size_t limit, Which which) override {
    if (away) throw engine::StoreError("the shared history is away", true);
    if (which == Which::kAll && at_list) at_list();
    const std::scoped_lock lock(rows.mutex, mutex);
    std::vector<history::SharedRun> runs;
    for (const auto& [uid, row] : rows.runs) {
      if ((which == Which::kAll || row.status == v1::RUN_STATUS_RUNNING) && runs.size() < limit) runs.push_back(shared(row));
    }
    return runs;
  }
  std::optional<history::SharedRun> find_run(const std::string& name_or_uid) override {
    auto run = look(name_or_uid);
    if (after_find) after_find();
    return run;
  }
  std::optional<history::SharedRun> look(const std::string& name_or_uid) {
    if (away) throw engine::StoreError("the shared history is away", true);
    const auto row = rows.find_run(name_or_uid);
    const std::lock_guard lock(mutex);
    return row ? std::optional(shared(*row)) : std::nullopt;
  }
  std::optional<history::SharedRun> find_named(const std::string& name) override {
    if (away) throw engine::StoreError("the shared history is away", true);
    std::optional<history::SharedRun> run;
    if (const auto row = rows.find_named(name)) {
      const std::lock_guard lock(mutex);
      run = shared(*row);
    }
    if (after_find) after_find();
    return run;
  }
  std::uint64_t last_place(const std::string& run_uid, std::uint64_t term) override {
    const std::scoped_lock lock(rows.mutex, mutex);
    return row_terms[run_uid] == term ? last_place_in(rows, run_uid) : 0;
  }
  std::vector<engine::AlertRow> open_alerts(std::size_t limit) override {
    const std::lock_guard lock(rows.mutex);
    std::vector<engine::AlertRow> out;
    for (const auto& [id, row] : rows.alerts) {
      if (out.size() < limit) out.push_back(row);
    }
    return out;
  }
  std::set<std::string> alert_ids(const std::string& /*run_uid*/) override {
    if (at_alert_ids) at_alert_ids();
    const std::lock_guard lock(mutex);
    return alerts;
  }
  std::uint64_t claim(const std::string& name, const std::string& instance, std::uint64_t known = 0) override {
    if (away) throw engine::StoreError("the shared history is away", true);
    const std::lock_guard lock(mutex);
    Claim& claim = claims[name];
    claim.instance = instance;
    return claim.term = std::max(claim.term, known) + 1;
  }
  bool load_run(const std::string& /*run_uid*/, const std::function<void(engine::CommitBatch&&)>& /*take*/) override {
    return false;
  }
  std::map<std::uint32_t, std::uint64_t> floors(const std::string& /*run_uid*/) override { return {}; }

  struct Claim {
    std::string instance;
    std::uint64_t term = 0;
  };
  std::atomic<bool> away{false};
  std::function<void()> after_find{};  // before it is told what was found; to be set while nobody asks
  std::function<void()> at_list{};     // the same before all runs are listed
  std::function<void()> at_alert_ids{};
  MemoryStore rows;
  std::mutex mutex;
  std::set<std::string> alerts;                    // ids
  std::map<std::string, Claim> claims;             // by name
  std::map<std::string, std::uint64_t> row_terms;  // by run_uid
  std::map<std::string, std::uint64_t> row_versions;
  // Of what each store has of a run, by run_uid: as feed_runs keeps it on a disk.
  std::map<const MemoryStore*, std::map<std::string, std::uint64_t>> terms;
  std::map<const MemoryStore*, std::map<std::string, std::uint64_t>> doubted;  // how far logs went when commits were missed

 private:
  history::SharedRun shared(const engine::RunRow& row) {
    return {row, claims[row.name].instance, claims[row.name].term, 0, row_terms[row.run_uid], row_versions[row.run_uid]};
  }
};

class FakeFeed final : public history::SharedFeed {
 public:
  FakeFeed(FakeShared& shared, MemoryStore& local) : shared_(shared), local_(local) {}

  void own(const std::string& run_uid, const std::string& /*name*/, std::uint64_t term) override {
    if (refuse) throw engine::StoreError("disk full", true);
    note_term(run_uid, term);
    {
      const std::lock_guard lock(shared_.mutex);
      shared_.doubted[&local_].erase(run_uid);
    }
    const std::lock_guard lock(mutex_);
    owned_[run_uid] = term;
  }
  void note_term(const std::string& run_uid, std::uint64_t term) {
    const std::lock_guard lock(shared_.mutex);
    shared_.terms[&local_][run_uid] = term;
  }
  std::optional<std::uint64_t> term_of(const std::string& run_uid) override {
    const std::lock_guard lock(shared_.mutex);
    return shared_.terms[&local_][run_uid];
  }
  std::vector<std::string> behind() override {
    const std::scoped_lock lock(local_.mutex, shared_.rows.mutex);
    std::vector<std::string> out;
    for (const auto& [uid, row] : local_.runs) {
      if (shared_.rows.log[uid].size() < local_.log[uid].size()) out.push_back(uid);
    }
    return out;
  }
  void disown(const std::string& run_uid) override {
    const std::lock_guard lock(mutex_);
    owned_.erase(run_uid);
  }
  bool drain(const std::string& run_uid, std::chrono::milliseconds /*most*/) override {
    const std::lock_guard lock(mutex_);
    return owned_.contains(run_uid) && share(run_uid, owned_[run_uid]);
  }
  void on_lost(std::function<void(const std::string& run_uid, const history::SharedRun& now)> lost) override {
    const std::lock_guard lock(mutex_);
    lost_ = std::move(lost);
  }

  // Feeds what is durable; finds out what was claimed by others.
  void turn() {
    std::vector<history::SharedRun> lost;
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, term] : owned_) {
      const auto now = shared_.find_run(uid);
      if (now && now->term > term) {
        lost.push_back(*now);
      } else {
        share(uid, term);
      }
    }
    for (const history::SharedRun& now : lost) {
      owned_.erase(now.row.run_uid);
      lost_(now.row.run_uid, now);
    }
  }
  // As turn() does, of a claim that was seen a while ago.
  void lose(const history::SharedRun& then) {
    const std::lock_guard lock(mutex_);
    lost_(then.row.run_uid, then);
  }
  std::atomic<bool> refuse{false};  // own()
  bool owns(const std::string& run_uid) {
    const std::lock_guard lock(mutex_);
    return owned_.contains(run_uid);
  }

 private:
  bool share(const std::string& run_uid, std::uint64_t term) {
    if (!copy_run(run_uid, local_, shared_.rows)) return false;
    const std::lock_guard lock(shared_.mutex);
    shared_.row_terms[run_uid] = term;
    ++shared_.row_versions[run_uid];
    return true;
  }
  FakeShared& shared_;
  MemoryStore& local_;
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> owned_;
  std::function<void(const std::string& run_uid, const history::SharedRun& now)> lost_;
};

}  // namespace scalewatch::fleet::testing
