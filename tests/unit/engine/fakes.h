// Ports that tests own: a store in memory with faults to order, an outbox that records, a clock that stands, a client's end.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/finding_codec.h"

namespace scalewatch::engine::testing {

class MemoryStore final : public HistoryStore {
 public:
  using StreamKey = std::tuple<std::string, std::uint32_t, Incarnation>;

  void commit(const CommitBatch& batch) override {
    std::lock_guard lock(mutex);
    if (refuse) throw StoreError("disk full", true);
    for (const auto& row : batch.reports) {
      if (row.run_uid == refused_run) throw StoreError("a row of run " + refused_run + " is refused", false);
    }
    for (const auto& row : batch.runs) runs[row.run_uid] = row;
    for (const auto& row : batch.incarnations) {
      auto& stored = incarnation_rows[{row.run_uid, row.rank, row.incarnation}];
      const auto durable = std::max(stored.durable_seq, row.durable_seq);
      stored = row;
      stored.durable_seq = durable;
    }
    for (const auto& row : batch.tables) table_rows[{row.run_uid, row.rank, row.incarnation}][row.version] = row;
    for (const auto& row : batch.reports) {
      if (!seqs.insert({{row.run_uid, row.rank, row.incarnation}, row.seq}).second) ++repeated_reports;
      log[row.run_uid][row.pos].report = row;
    }
    for (const auto& row : batch.inputs) log[row.run_uid][row.pos].input = row;
    for (const auto& row : batch.snapshots) snapshots[row.run_uid] = row;
    snapshot_rows += batch.snapshots.size();
    for (const auto& row : batch.alerts) alerts[row.id] = row;
    for (const auto& row : batch.outbox) outbox.insert(row.key);
    ++commits;
  }
  bool commit_alerts(const CommitBatch& batch) override {
    if (!takes_alerts) return false;
    std::lock_guard lock(mutex);
    for (const auto& row : batch.alerts) alerts[row.id] = row;
    for (const auto& row : batch.outbox) outbox.insert(row.key);
    return true;
  }
  void refuse_run(const std::string& run_uid) {
    std::lock_guard lock(mutex);
    refused_run = run_uid;
  }
  std::optional<RunRow> find_run(const std::string& name_or_uid) override {
    {
      std::lock_guard lock(mutex);
      if (const auto found = runs.find(name_or_uid); found != runs.end() && !cannot_be_read) return found->second;
    }
    return find_named(name_or_uid);
  }
  std::optional<RunRow> find_named(const std::string& name) override {
    std::lock_guard lock(mutex);
    if (cannot_be_read) throw StoreError("readers are busy", true);
    const auto found = std::find_if(runs.begin(), runs.end(), [&](const auto& run) { return run.second.name == name; });
    return found == runs.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<RunRow> list_lost(std::size_t limit) override {
    std::lock_guard lock(mutex);
    std::vector<RunRow> out;
    for (const auto& [uid, row] : runs) {
      if (row.status == v1::RUN_STATUS_LOST && row.worst_open > 0 && out.size() < limit) out.push_back(row);
    }
    return out;
  }
  std::vector<RunRow> list_running(std::size_t limit) override {
    std::lock_guard lock(mutex);
    std::vector<RunRow> out;
    for (const auto& [uid, row] : runs) {
      if (row.status == v1::RUN_STATUS_RUNNING && out.size() < limit) out.push_back(row);
    }
    return out;
  }
  std::vector<IncarnationRow> incarnations(const std::string& run_uid) override {
    std::lock_guard lock(mutex);
    std::vector<IncarnationRow> out;
    for (const auto& [key, row] : incarnation_rows) {
      if (row.run_uid == run_uid) out.push_back(row);
    }
    return out;
  }
  std::vector<TableRow> tables(const std::string& run_uid, std::uint32_t rank, const Incarnation& incarnation) override {
    std::lock_guard lock(mutex);
    std::vector<TableRow> out;
    for (const auto& [version, row] : table_rows[{run_uid, rank, incarnation}]) out.push_back(row);
    return out;
  }
  std::optional<SnapshotRow> newest_snapshot(const std::string& run_uid) override {
    std::lock_guard lock(mutex);
    const auto it = snapshots.find(run_uid);
    return it == snapshots.end() ? std::nullopt : std::optional(it->second);
  }
  void read_log(const std::string& run_uid, std::uint64_t after_pos,
                const std::function<void(const LogEntry&)>& visit) override {
    std::lock_guard lock(mutex);
    if (log_is_broken) throw StoreError("malformed", false);
    const auto& entries = log[run_uid];
    for (auto it = entries.upper_bound(after_pos); it != entries.end(); ++it) visit(it->second);
  }

  std::size_t reports() {
    std::lock_guard lock(mutex);
    return seqs.size();
  }

  bool has_alert(const std::string& rule) {
    std::lock_guard lock(mutex);
    return std::any_of(alerts.begin(), alerts.end(), [&](const auto& entry) { return entry.second.rule == rule; });
  }
  bool has_key(const std::string& rule, const std::string& end) {
    std::lock_guard lock(mutex);
    return std::any_of(outbox.begin(), outbox.end(), [&](const std::string& key) {
      return key.find("/" + rule + "/") != std::string::npos && key.ends_with(end);
    });
  }

  void clear() { MemoryStore().copy_to(*this); }

  // Another store with what is durable at this moment: what a killed server leaves behind.
  void copy_to(MemoryStore& other) {
    std::lock_guard lock(mutex);
    other.runs = runs;
    other.incarnation_rows = incarnation_rows;
    other.table_rows = table_rows;
    other.seqs = seqs;
    other.log = log;
    other.snapshots = snapshots;
    other.alerts = alerts;
    other.outbox = outbox;
  }

  std::mutex mutex;
  std::atomic<bool> refuse{false};
  std::atomic<bool> takes_alerts{false};  // while it refuses the rest
  std::string refused_run;                // whose reports it never takes
  std::atomic<bool> log_is_broken{false};
  std::atomic<bool> cannot_be_read{false};  // at this moment
  std::atomic<int> commits{0};
  std::map<std::string, RunRow> runs;
  std::map<StreamKey, IncarnationRow> incarnation_rows;
  std::map<StreamKey, std::map<std::uint32_t, TableRow>> table_rows;
  std::set<std::pair<StreamKey, std::uint64_t>> seqs;
  std::map<std::string, std::map<std::uint64_t, LogEntry>> log;
  std::map<std::string, SnapshotRow> snapshots;
  std::map<std::string, AlertRow> alerts;
  std::set<std::string> outbox;
  int repeated_reports = 0;
  std::size_t snapshot_rows = 0;  // in all
};

// Firing and resolving as keys, the way alerting makes them.
class MemoryOutbox final : public AlertOutbox {
 public:
  void stage(const RunContext& run, const std::vector<domain::FindingEvent>& events, CommitBatch& batch) override {
    for (const auto& event : events) {
      const std::string id = finding_id(run.run_uid, event.finding);
      v1::Alert alert;
      alert.set_id(id);
      *alert.mutable_finding() = to_proto(run.run_uid, event.finding);
      batch.alerts.push_back(
          {.id = id, .run_uid = run.run_uid, .rule = event.finding.rule, .alert = alert.SerializeAsString()});
      if (event.change == domain::FindingEvent::Change::kOpened)
        batch.outbox.push_back({.key = id + "/firing", .sink = "test", .alert_id = id, .transition = {}, .alert = {}});
      if (event.change == domain::FindingEvent::Change::kResolved)
        batch.outbox.push_back({.key = id + "/resolved", .sink = "test", .alert_id = id, .transition = {}, .alert = {}});
      std::lock_guard lock(mutex);
      if (!event.reason.empty()) reasons[id] = event.reason;
    }
  }
  void resolve_all(const RunContext& run, const std::string& why, CommitBatch& /*batch*/) override {
    std::lock_guard lock(mutex);
    let_go[run.name] = why;
  }
  std::vector<domain::Acknowledged> reconcile(const RunContext& run, const std::vector<domain::Finding>& open, bool settled,
                                              CommitBatch& /*batch*/) override {
    std::lock_guard lock(mutex);
    auto& seen = reconciled[run.name].emplace_back();
    seen.settled = settled;
    for (const auto& finding : open) seen.open.insert(finding.rule);
    return std::exchange(lost, {});
  }
  void committed(const CommitBatch& /*batch*/) override {}

  struct Reconciled {
    bool settled = false;
    std::set<std::string> open;  // rules
  };
  std::mutex mutex;
  std::map<std::string, std::vector<Reconciled>> reconciled;  // by run: each call
  std::map<std::string, std::string> reasons;                 // of resolves, by alert
  std::map<std::string, std::string> let_go;                  // by run: why all was resolved
  std::vector<domain::Acknowledged> lost;                     // what the next reconcile() returns
};

class ManualClock final : public Clock {
 public:
  [[nodiscard]] std::int64_t wall_ms() const override { return 1'700'000'000'000 + now; }
  [[nodiscard]] std::int64_t steady_ms() const override { return now; }
  std::atomic<std::int64_t> now{1'000};
};

// Polls until `condition` holds; false after 20 s.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

class RecordingPeer final : public StreamPeer {
 public:
  void send(const v1::ServerMessage& message) override {
    std::lock_guard lock(mutex_);
    if (message.has_hello_ack()) {
      hello_ack_ = message.hello_ack();
      directives_.clear();
      for (const auto& directive : hello_ack_->directives()) take(directive);
    }
    if (message.has_directive()) take(message.directive());
    if (message.has_ack()) durable_ = std::max(durable_, message.ack().durable_seq());
    if (message.has_fault()) faults_.push_back(message.fault());
  }
  void resume() override { ++resumes_; }
  void end(const v1::Fault& fault) override {
    std::lock_guard lock(mutex_);
    ended_ = fault;
  }
  void finish() override { finished_ = true; }

  std::optional<v1::HelloAck> hello_ack() {
    std::lock_guard lock(mutex_);
    return hello_ack_;
  }
  std::optional<v1::Fault> ended() {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  std::vector<v1::Fault> faults() {
    std::lock_guard lock(mutex_);
    return faults_;
  }
  std::uint64_t durable() {
    std::lock_guard lock(mutex_);
    return durable_;
  }
  // Those in force, by id, as a client keeps them.
  std::map<std::string, v1::Directive> directives() {
    std::lock_guard lock(mutex_);
    return directives_;
  }
  int directives_told() {
    std::lock_guard lock(mutex_);
    return directives_told_;
  }
  int resumes() const { return resumes_; }
  bool finished() const { return finished_; }

 private:
  void take(const v1::Directive& directive) {
    ++directives_told_;
    directives_[directive.id()] = directive;
    constexpr std::int64_t kLongAgo = 1'600'000'000'000;  // the manual clock is later
    if (directive.expires_ms() != 0 && directive.expires_ms() < kLongAgo) directives_.erase(directive.id());
  }

  std::mutex mutex_;
  std::map<std::string, v1::Directive> directives_;
  int directives_told_ = 0;
  std::optional<v1::HelloAck> hello_ack_;
  std::optional<v1::Fault> ended_;
  std::vector<v1::Fault> faults_;
  std::uint64_t durable_ = 0;
  std::atomic<int> resumes_{0};
  std::atomic<bool> finished_{false};
};

// A trainer's rank as the engine sees it.
class TestClient {
 public:
  struct Options {
    std::string run = "run";
    std::uint32_t rank = 0;
    std::uint32_t world_size = 1;
    std::uint8_t incarnation = 1;
    int tensors = 2;     // gradients
    int parameters = 0;  // beside them in the table; reports hold none
    std::int64_t start_ms = 0;
  };

  TestClient(Engine& engine, Options options) : options_(std::move(options)) { connect(engine); }
  ~TestClient() {
    if (stream_) stream_->closed();
  }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void connect(Engine& engine) {
    if (stream_) stream_->closed();
    peer_ = std::make_shared<RecordingPeer>();
    stream_ = engine.attach(peer_);
  }

  v1::Hello hello() const {
    v1::Hello out;
    out.set_protocol_version(1);
    out.set_run(options_.run);
    out.set_rank(options_.rank);
    out.set_world_size(options_.world_size);
    out.set_incarnation(std::string(16, static_cast<char>(options_.incarnation)));
    out.set_incarnation_order(options_.incarnation);
    out.set_table_size(static_cast<std::uint32_t>(options_.tensors + options_.parameters));
    out.set_start_time_ms(options_.start_ms);
    out.set_table_hash(42);  // unknown to the server: it asks for the table
    out.set_framework("test");
    out.set_compute_dtype(v1::DTYPE_FP16);
    auto* scaler = out.add_scalers();
    scaler->set_name("default");
    scaler->set_policy("pytorch");
    (*scaler->mutable_parameters())["init_scale"] = 65536;
    out.add_optimizers()->set_name("default");
    return out;
  }

  // A new connection of the same client, which had given out seqs up to last_seq.
  bool reconnect(Engine& engine, std::uint64_t last_seq) {
    connect(engine);
    return join(last_seq);
  }

  // Sends Hello and waits for the answer.
  bool join(std::uint64_t last_seq = 0, std::uint64_t durable_seq = 0) {
    v1::ClientMessage message;
    *message.mutable_hello() = hello();
    message.mutable_hello()->set_last_seq(last_seq);
    message.mutable_hello()->set_durable_seq(durable_seq);
    stream_->on_message(std::move(message));
    return eventually([&] { return peer_->hello_ack() || peer_->ended(); }) && peer_->hello_ack();
  }

  Stream::Next send_table() {
    v1::ClientMessage message;
    auto* table = message.mutable_table();
    table->set_version(1);
    const auto add = [&](int count, v1::Role role) {
      for (int i = 0; i < count; ++i) {
        auto* info = table->add_infos();
        info->set_name("layer" + std::to_string(i) + ".weight");
        info->set_role(role);
        info->set_dtype(v1::DTYPE_FP16);
        info->set_numel(100);
        info->set_forward_index(static_cast<std::uint32_t>(i));
      }
    };
    add(options_.tensors, v1::ROLE_GRADIENT);
    add(options_.parameters, v1::ROLE_PARAMETER);
    return stream_->on_message(std::move(message));
  }

  void beat(v1::Phase phase) {
    v1::ClientMessage message;
    message.mutable_heartbeat()->set_phase(phase);
    stream_->on_message(std::move(message));
  }

  // An attempt with gradients; with `inf`, that many elements of tensor 0 are Inf and the step is skipped.
  v1::Report report(std::uint64_t seq, std::uint64_t inf = 0) const {
    v1::Report out;
    out.set_seq(seq);
    out.set_attempt(seq);
    out.set_step(static_cast<std::int64_t>(seq));
    out.set_loss(1.5);
    auto* block = out.add_blocks();
    block->set_role(v1::ROLE_GRADIENT);
    block->set_target(v1::DTYPE_FP16);
    block->set_measured_under_scale(65536);
    block->set_count(static_cast<std::uint32_t>(options_.tensors));
    for (int i = 0; i < options_.tensors; ++i) {
      block->add_min(-1.0F);
      block->add_max(2.0F);
      block->add_absmin_nonzero(0.5F);
      block->add_sum(10);
      block->add_sum_sq(20);
    }
    if (inf > 0) {
      block->add_pos_inf()->set_count(inf);
    }
    auto* scaler = out.add_scalers();
    scaler->set_scale_before(65536);
    scaler->set_scale_after(inf > 0 ? 32768 : 65536);
    auto* optimizer = scaler->add_optimizers();
    optimizer->set_found_inf_decided(inf > 0 ? 1 : 0);
    optimizer->set_outcome(inf > 0 ? v1::OUTCOME_SKIPPED : v1::OUTCOME_APPLIED);
    return out;
  }

  Stream::Next send(const v1::Report& report) {
    v1::ClientMessage message;
    *message.mutable_report() = report;
    return stream_->on_message(std::move(message));
  }
  Stream::Next send_loss(std::uint64_t first, std::uint64_t last, v1::LossCause cause = v1::LOSS_CAUSE_BUFFER_FULL) {
    v1::ClientMessage message;
    message.mutable_loss()->set_first_seq(first);
    message.mutable_loss()->set_last_seq(last);
    message.mutable_loss()->set_cause(cause);
    return stream_->on_message(std::move(message));
  }
  Stream::Next heartbeat() {
    v1::ClientMessage message;
    message.mutable_heartbeat();
    return stream_->on_message(std::move(message));
  }
  Stream::Next goodbye() {
    v1::ClientMessage message;
    message.mutable_goodbye()->set_reason("finished");
    return stream_->on_message(std::move(message));
  }

  bool durable(std::uint64_t seq) {
    return eventually([&] { return peer_->durable() >= seq; });
  }
  RecordingPeer& peer() { return *peer_; }
  Stream& stream() { return *stream_; }

 private:
  Options options_;
  std::shared_ptr<RecordingPeer> peer_;
  std::shared_ptr<Stream> stream_;
};

}  // namespace scalewatch::engine::testing
