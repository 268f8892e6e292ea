// What a client may say: a row of messages, as tests/data/wire has them (each after its length: 4 bytes, little-endian), goes
// through parsing, an engine's stream, the folding of ranks and runs, and all rules. The store takes everything and keeps
// nothing.
#include <google/protobuf/stubs/logging.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "server/app/system_clock.h"
#include "server/engine/engine.h"

namespace scalewatch::engine {
namespace {

struct NoStore final : HistoryStore {
  void commit(const CommitBatch& batch) override {
    for (const auto& row : batch.runs) {
      if (row.run_uid.empty() || row.name.empty()) std::abort();
    }
    for (const auto& row : batch.reports) {
      if (row.seq == 0 || row.pos == 0) std::abort();
    }
  }
  std::optional<RunRow> find_run(const std::string& /*name*/) override { return {}; }
  std::optional<RunRow> find_named(const std::string& /*name*/) override { return {}; }
  std::vector<RunRow> list_running(std::size_t /*limit*/) override { return {}; }
  std::vector<RunRow> list_lost(std::size_t /*limit*/) override { return {}; }
  std::vector<IncarnationRow> incarnations(const std::string& /*uid*/) override { return {}; }
  std::vector<TableRow> tables(const std::string& /*uid*/, std::uint32_t /*rank*/, const Incarnation& /*one*/) override {
    return {};
  }
  std::optional<SnapshotRow> newest_snapshot(const std::string& /*uid*/) override { return {}; }
  void read_log(const std::string& /*uid*/, std::uint64_t /*after*/,
                const std::function<void(const LogEntry&)>& /*visit*/) override {}
};

struct NoOutbox final : AlertOutbox {
  void stage(const RunContext& /*run*/, const std::vector<domain::FindingEvent>& events, CommitBatch& /*batch*/) override {
    for (const auto& event : events) {
      if (event.finding.rule.empty() || event.finding.summary.empty()) std::abort();
    }
  }
  void resolve_all(const RunContext& /*run*/, const std::string& /*why*/, CommitBatch& /*batch*/) override {}
  std::vector<domain::Acknowledged> reconcile(const RunContext& /*run*/, const std::vector<domain::Finding>& /*open*/,
                                              bool /*settled*/, CommitBatch& /*batch*/) override {
    return {};
  }
  void committed(const CommitBatch& /*batch*/) override {}
};

// Checks that a stream answers as it promises: one resume for each pause, an end at most once.
struct Peer final : StreamPeer {
  void send(const v1::ServerMessage& message) override {
    if (message.kind_case() == v1::ServerMessage::KIND_NOT_SET) std::abort();
  }
  void resume() override { note(resumes); }
  void end(const v1::Fault& fault) override {
    if (fault.cause() != v1::FAULT_CAUSE_UNSPECIFIED && fault.message().empty()) std::abort();
    note(ends);
  }
  void finish() override { note(ends); }

  void note(int& what) {
    const std::lock_guard lock(mutex);
    ++what;
    changed.notify_all();
  }
  // False when the stream is over.
  bool wait_for_room() {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, std::chrono::seconds(30), [&] { return resumes > 0 || ends > 0; })) std::abort();
    if (resumes > 0) --resumes;
    return ends == 0;
  }

  std::mutex mutex;
  std::condition_variable changed;
  int resumes = 0, ends = 0;
};

EngineOptions small() {
  EngineOptions options;
  options.threads = 1;
  options.commit_delay = std::chrono::milliseconds(1);
  options.close_after = std::chrono::milliseconds(20);
  options.max_runs = 64;
  options.max_ranks = 64;
  options.limits = default_limits();
  options.limits.set_max_tensors(1000);
  return options;
}

}  // namespace
}  // namespace scalewatch::engine

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace scalewatch;
  static google::protobuf::LogSilencer quiet;
  static engine::NoStore store;
  static engine::NoOutbox outbox;
  static app::SystemClock clock;
  // Fresh from time to time, so that what fails depends on few inputs before it.
  static std::unique_ptr<engine::Engine> engine;
  static int inputs = 0;
  if (inputs++ % 2000 == 0) engine = std::make_unique<engine::Engine>(engine::small(), store, outbox, clock);

  auto peer = std::make_shared<engine::Peer>();
  const auto stream = engine->attach(peer);
  while (size >= 4) {
    std::uint32_t length = 0;
    std::memcpy(&length, data, sizeof length);
    data += 4;
    size -= 4;
    const std::size_t taken = std::min<std::size_t>(length, size);
    v1::ClientMessage message;
    const bool parsed = message.ParseFromArray(data, static_cast<int>(taken));
    data += taken;
    size -= taken;
    if (!parsed) continue;
    const auto next = stream->on_message(std::move(message));
    if (next == engine::Stream::Next::kStop) break;
    if (next == engine::Stream::Next::kPause && !peer->wait_for_room()) break;
  }
  stream->closed();
  return 0;
}
