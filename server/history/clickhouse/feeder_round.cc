// What the feeding thread does in a round: a batch, the rows of runs, what expires.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>

#include "server/history/clickhouse/feeder.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/tables.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::chrono::seconds kLookEvery{5};
constexpr std::chrono::seconds kLookWait{5};
constexpr std::chrono::hours kDropEvery{1};
constexpr std::size_t kRowsAtOnce = 100;  // of runs that are looked at after a start

}  // namespace

bool Feeder::round() {
  if (keep_prepared(writer_.connection(), options_, writer_.take_lost(), prepared_)) {
    writer_.forget();
    claims_checked_ = false;
  }
  if (batch_.empty()) fill();
  if (!batch_.empty()) send_and_make_next();
  look_for_rows();
  const bool more = write_rows();
  drop_old();
  look_whether_it_is_there();
  return more || !next_.empty();
}

// With nothing to send a shared history that is away would go unnoticed until a takeover needs it.
void Feeder::look_whether_it_is_there() {
  if (SteadyClock::now() - writer_.connection().answered_at() > kLookEvery) writer_.connection().query("SELECT 1", kLookWait);
}

std::vector<BatchMaker::Due> Feeder::due() {
  std::vector<BatchMaker::Due> due;
  std::unique_lock lock(mutex_);
  for (const std::string& run_uid : runs_.due()) {
    const auto known = runs_[run_uid].progress;
    due.push_back({run_uid, runs_[run_uid].term, known ? known->pos : 0, known ? known->intent : 0});
    if (known) continue;
    lock.unlock();
    const auto stored = state_.progress(run_uid);
    lock.lock();
    due.back().pos = stored.pos;
    due.back().intent = stored.intent;
  }
  return due;
}

std::vector<BatchMaker::Due> Feeder::due_after() {
  auto all = due();
  for (BatchMaker::Due& run : all) {
    if (const auto leaves = batch_.to_pos.find(run.run_uid); leaves != batch_.to_pos.end())
      run.pos = run.intent = leaves->second;
  }
  return all;
}

void Feeder::fill() {
  if (!next_.empty()) {
    std::lock_guard lock(mutex_);
    const auto& parts = next_.batch.parts();
    const bool follows = std::all_of(parts.begin(), parts.end(), [&](const Batch::Part& part) {
      const FedRun& run = runs_[part.run_uid];
      return run.fed && run.term == part.term && run.progress && run.progress->pos + 1 == part.pos.first;
    });
    if (follows) {
      std::swap(batch_, next_);
      // More may have been committed since: their logs stay due.
      for (const Batch::Part& part : batch_.batch.parts()) runs_.stays(part.run_uid, true, true);
    }
    next_.clear();
  }
  if (batch_.empty()) {
    const auto runs = due();
    {
      std::lock_guard lock(mutex_);
      for (const auto& run : runs) runs_.leaves(run.run_uid);
    }
    try {
      maker_.make(runs, batch_);
    } catch (...) {
      std::lock_guard lock(mutex_);
      for (const auto& run : runs) runs_.came_back(run.run_uid, true);
      throw;
    }
    std::lock_guard lock(mutex_);
    for (const auto& run : runs) {
      runs_.stays(run.run_uid, batch_.to_pos.contains(run.run_uid), !batch_.whole.contains(run.run_uid));
    }
  }
  claims_checked_ = false;
  if (!batch_.again && !batch_.empty()) state_.intend(batch_.to_pos);
}

void Feeder::send_and_make_next() {
  std::future<void> ahead;
  // Of a full one alone: what is not full grows until it is its turn.
  if (!batch_.cut.empty()) {
    ahead = std::async(std::launch::async, [this, due = due_after()] { maker_.make(due, next_); });
  }
  bool sent = false;
  std::exception_ptr failed;
  try {
    sent = send();
  } catch (...) {
    failed = std::current_exception();
  }
  try {
    if (ahead.valid()) ahead.get();
  } catch (const std::exception&) {
    // It comes again when it is read for itself.
  }
  // A batch that has to wait waits alone.
  if (!sent) next_.clear();
  if (failed) std::rethrow_exception(failed);
}

bool Feeder::look_for_claims() {
  if (!who_.claims || claims_checked_) return true;
  const auto& parts = batch_.batch.parts();
  std::map<std::string, std::string> names;  // by run_uid
  {
    std::lock_guard lock(mutex_);
    for (const Batch::Part& part : parts) names[part.run_uid] = runs_[part.run_uid].name;
  }
  std::vector<std::uint64_t> keys;
  for (const auto& [run_uid, name] : names) keys.push_back(name_key(name));
  auto owners = newest_claims(writer_.connection(), keys);
  if (renew_claims(names, owners)) owners = newest_claims(writer_.connection(), keys);
  for (const Batch::Part& part : parts) {
    const auto found = owners.find(name_key(names[part.run_uid]));
    if (found == owners.end() || found->second.term < part.term) continue;
    // Of our term another one's is from when the shared history had lost ours.
    if (found->second.term == part.term && found->second.instance == who_.instance) continue;
    claims_checked_ = false;
    lose(part, names[part.run_uid], found->second);
    // Made anew of what is still ours.
    std::lock_guard lock(mutex_);
    for (const Batch::Part& one : parts) runs_.came_back(one.run_uid, false);
    batch_.clear();
    return false;
  }
  claims_checked_ = true;
  return true;
}

bool Feeder::renew_claims(const std::map<std::string, std::string>& names, const std::map<std::uint64_t, Claim>& owners) {
  bool renewed = false;
  for (const Batch::Part& part : batch_.batch.parts()) {
    const std::string& name = names.at(part.run_uid);
    const auto found = owners.find(name_key(name));
    if (part.term == 0 || (found != owners.end() && found->second.term >= part.term)) continue;
    spdlog::warn(
        "history.clickhouse: the claim of run '{}' with term {} is gone: the shared history began anew, or an older copy of it "
        "was put back; it is claimed again, and what was only there is lost",
        name, part.term);
    renew_claim(writer_.connection(), name_key(name), part.term, who_.instance, clock_.wall_ms());
    writer_.forget(part.run_uid);
    renewed = true;
    std::lock_guard lock(mutex_);
    runs_.row_is_due(part.run_uid);
  }
  return renewed;
}

void Feeder::lose(const Batch::Part& part, const std::string& name, const Claim& claim) {
  history::SharedRun now;
  now.row.run_uid = part.run_uid;
  now.row.name = name;
  now.instance = claim.instance;
  now.term = claim.term;
  now.claimed_ms = claim.claimed_ms;
  // What is here and what the other one sends are of one term then, and only that one's is as the shared history has it.
  if (now.term == part.term) state_.owned(part.run_uid, 0);
  std::unique_lock lock(mutex_);
  FedRun& run = runs_[part.run_uid];
  if (run.term > part.term) return;  // claimed again meanwhile
  run.fed = false;
  const auto lost = lost_;
  lock.unlock();
  spdlog::error(
      "history.clickhouse: run '{}' is fed here under term {}, and {} claimed it with term {}: it is not fed here any more",
      name, part.term, now.instance, now.term);
  if (lost) lost(part.run_uid, now);
}

bool Feeder::send() {
  if (!look_for_claims()) return false;
  writer_.write(batch_.batch, next_ms());
  // Who claims a run reads it afterwards. When nobody has claimed it by now, this batch is there for whoever will; otherwise it
  // may have come too late to count, and clients must not let go of it.
  claims_checked_ = false;
  if (!look_for_claims()) return false;
  const auto to_pos = batch_.to_pos;
  std::map<history::FeedState::Stream, std::uint64_t> seqs;
  for (const auto& [stream, range] : batch_.batch.streams()) seqs[stream] = range.last;
  state_.sent(to_pos, seqs);
  seqs_.sent(seqs);
  {
    std::lock_guard lock(mutex_);
    ++stats_.batches;
    stats_.records += batch_.batch.record_count();
    for (const auto& [run_uid, pos] : to_pos) runs_.sent(run_uid, pos, batch_.bytes[run_uid]);
  }
  if (stats().lag_bytes == 0) pressed_out_ = store_.retention().pressed_out();
  settled_.notify_all();
  if (batch_.batch.unreadable() > 0) {
    spdlog::error("history.clickhouse: {} entries of the log can't be read and went without what they held",
                  batch_.batch.unreadable());
  }
  batch_.clear();
  if (replicated_) {
    for (const auto& [run_uid, pos] : to_pos) replicated_(run_uid);
  }
  return true;
}

std::int64_t Feeder::next_ms() {
  version_ms_ = std::max(version_ms_ + 1, clock_.wall_ms());
  return version_ms_;
}

void Feeder::look_for_rows() {
  if (!rows_after_) return;
  const auto marks = state_.row_marks(*rows_after_, kRowsAtOnce);
  std::lock_guard lock(mutex_);
  for (const auto& mark : marks) {
    if (mark.sent != mark.now) runs_.row_is_due(mark.run_uid);
  }
  rows_after_ = marks.size() < kRowsAtOnce ? std::nullopt : std::optional(marks.back().run_uid);
}

// Rows of runs whose log is sent, each now and then. True when more log waits.
bool Feeder::write_rows() {
  bool more = false;
  const auto now = SteadyClock::now();
  std::vector<DueRow> due;
  {
    std::lock_guard lock(mutex_);
    due = runs_.due_rows(now, kBatchBytes, more);
  }
  std::map<std::string, std::uint32_t> marks;
  for (std::size_t i = 0; i < due.size(); ++i) {
    DueRow& one = due[i];
    try {
      // Before it is read: what changes meanwhile is sent again.
      const auto mark = who_.claims ? std::nullopt : state_.row_mark(one.run_uid);
      if (mark) marks[one.run_uid] = mark->now;
      // One that is ahead goes with the next row, for the log will be there by then.
      if (!writer_.write_run(one.run_uid, one.term, next_ms(), one.pos, one.snapshot)) one.snapshot = false;
    } catch (...) {
      {
        std::lock_guard lock(mutex_);
        for (std::size_t left = i; left < due.size(); ++left) runs_.row_stays(due[left].run_uid);
      }
      marks.erase(one.run_uid);
      if (!marks.empty()) state_.rows_sent(marks);
      throw;
    }
    std::lock_guard lock(mutex_);
    runs_.row_sent(one, now);
  }
  if (!marks.empty()) state_.rows_sent(marks);
  std::lock_guard lock(mutex_);
  runs_.forget_quiet(now);
  const auto is_kept = [&](const std::string& run_uid) { return runs_.knows(run_uid); };
  seqs_.keep_only(is_kept);
  writer_.keep_only(is_kept);
  maker_.tables().keep_only(is_kept);
  settled_.notify_all();
  return more;
}

void Feeder::drop_old() {
  const auto now = SteadyClock::now();
  if (dropped_at_ && now - *dropped_at_ < kDropEvery) return;
  dropped_at_ = now;
  drop_payloads(writer_.connection(), options_, clock_.wall_ms());
}

}  // namespace scalewatch::clickhouse
