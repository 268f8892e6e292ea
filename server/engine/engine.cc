#include "server/engine/engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

// Boost 1.74's Asio needs std::exchange before its own headers in C++20.
#include <utility>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <mutex>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "server/engine/commit_pipeline.h"
#include "server/engine/counters.h"
#include "server/engine/run.h"
#include "server/engine/stream.h"

namespace scalewatch::engine {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr int kIdleTicks = 10;               // a quiet run is looked at once a second
constexpr std::int64_t kQuietMs = 5'000;     // without input for this long, a run is quiet
constexpr std::int64_t kForgetMs = 600'000;  // an ended run leaves memory this long after its last input
constexpr std::size_t kMaxLoadedAtStart = 10'000;
constexpr std::int64_t kGoneEveryMs = 60'000;  // how often runs that are lost are looked at
constexpr std::size_t kMaxLost = 1'000;        // of them at a time

std::string make_uid() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

v1::Limits default_limits() {
  v1::Limits limits;
  limits.set_max_tensors(1'000'000);
  limits.set_max_name_bytes(512);
  limits.set_max_message_bytes(32U << 20);
  return limits;
}

struct Engine::Impl final : StreamHost {
  Impl(EngineOptions given, HistoryStore& history, AlertOutbox& alert_outbox, Clock& the_clock)
      : engine_options(std::move(given)),
        rules(engine_options.thresholds_of ? engine_options.thresholds_of
                                           : [t = engine_options.thresholds](const std::string& /*run*/) { return t; }),
        store(history),
        outbox(alert_outbox),
        engine_clock(the_clock),
        pool(engine_options.threads),
        pipeline({.delay = engine_options.commit_delay,
                  .bytes = engine_options.commit_bytes,
                  .after_commit = [this] { after_commit(); }},
                 store, outbox),
        timer(pool) {}

  // StreamHost
  void look_up(const std::string& name, std::function<void(Lookup&&)> done) override;
  Lookup run_of(const std::string& name);
  void paused(std::shared_ptr<StreamImpl> stream) override {
    std::lock_guard lock(streams_mutex);
    waiting.push_back(std::move(stream));
  }
  void made_durable(const std::shared_ptr<StreamImpl>& stream) override { to_ack.push_back(stream); }
  const EngineOptions& options() const override { return engine_options; }
  Clock& clock() override { return engine_clock; }
  Counters& counters() override { return engine_counters; }
  SharedTables& tables() override { return tables_of_all; }

  std::shared_ptr<RunHandle> add(const RunRow& row);   // runs_mutex held
  std::shared_ptr<RunHandle> load(const RunRow& row);  // the same
  std::shared_ptr<RunHandle> in_memory(const std::string& name_or_uid);
  void load_running();
  void look_for_gone();
  void after_commit();
  void resume_waiting();
  void arm_timer();
  void on_tick();
  void tick(const std::shared_ptr<RunHandle>& handle);
  void stop();

  const EngineOptions engine_options;
  RuleBook rules;
  HistoryStore& store;
  AlertOutbox& outbox;
  Clock& engine_clock;
  Counters engine_counters;
  SharedTables tables_of_all;
  Feed<RunEvent> run_events;
  Feed<v1::Alert> alert_events;

  asio::thread_pool pool;  // before the runs: their strands live in it

  mutable std::mutex runs_mutex;
  std::unordered_map<std::string, std::shared_ptr<RunHandle>> runs;  // by name
  std::unordered_set<std::string> being_removed;                     // from the store, by name; none of them is in memory

  std::mutex streams_mutex;
  std::vector<std::weak_ptr<StreamImpl>> streams;
  std::vector<std::shared_ptr<StreamImpl>> waiting;  // paused for want of room

  std::vector<std::shared_ptr<StreamImpl>> to_ack;  // committer thread only

  CommitPipeline pipeline;
  asio::steady_timer timer;
  int ticks = 0;
  std::optional<std::int64_t> gone_looked_ms;  // steady clock; the timer's
  std::atomic<bool> stopping{false};
  std::once_flag stopped;
};

// ---- runs -----------------------------------------------------------------------------------------------------------

std::shared_ptr<RunHandle> Engine::Impl::add(const RunRow& row) {
  auto handle = std::make_shared<RunHandle>();
  handle->run = std::make_shared<Run>(RunServices{engine_options, rules, outbox, engine_clock, pipeline, run_events,
                                                  alert_events, engine_counters, tables_of_all},
                                      row.run_uid, row.name, row.created_ms);
  handle->post = [strand = asio::make_strand(pool)](std::function<void()> task) { asio::post(strand, std::move(task)); };
  runs[row.name] = handle;
  return handle;
}

// What can't be read of a run costs as little as may be; the run itself goes on in any case. Throws StoreError when the store
// can't be read now.
std::shared_ptr<RunHandle> Engine::Impl::load(const RunRow& row) {
  using Recovery = Run::Recovery;
  if (being_removed.contains(row.name)) throw StoreError("run '" + row.name + "' is being removed: it is old", true);
  for (const Recovery how : {Recovery::kWhole, Recovery::kLog, Recovery::kStreams}) {
    const auto handle = add(row);
    try {
      handle->run->load(store, row, how);
      return handle;
    } catch (const StoreError& error) {
      runs.erase(row.name);
      if (error.retryable) throw;
      spdlog::error("run '{}' cannot be read back whole: {}", row.name, error.what());
    } catch (const std::exception& error) {
      runs.erase(row.name);
      spdlog::error("run '{}' cannot be read back whole: {}", row.name, error.what());
    }
  }
  const auto handle = add(row);
  handle->run->load(store, row, Recovery::kName);
  return handle;
}

StreamHost::Lookup Engine::Impl::run_of(const std::string& name) {
  // Reads the store under the lock: a name must not be made twice, and joins are rare.
  std::lock_guard lock(runs_mutex);
  if (stopping) return {nullptr, v1::FAULT_CAUSE_SHUTTING_DOWN, "the server is shutting down: connect again later"};
  if (auto it = runs.find(name); it != runs.end()) return {it->second, {}, {}};
  if (runs.size() >= engine_options.max_runs) {
    return {nullptr, v1::FAULT_CAUSE_LIMIT, fmt::format("{} runs are watched already, the configured limit", runs.size())};
  }
  try {
    const auto row = store.find_named(name);
    if (!row) {
      return {add({.run_uid = make_uid(), .name = name, .created_ms = engine_clock.wall_ms(), .overview = {}}), {}, {}};
    }
    return {load(*row), {}, {}};
  } catch (const std::exception& error) {
    spdlog::error("run '{}' cannot be read back: {}", name, error.what());
    return {nullptr, v1::FAULT_CAUSE_SHUTTING_DOWN, std::string("the run's history cannot be read now: ") + error.what()};
  }
}

void Engine::Impl::look_up(const std::string& name, std::function<void(Lookup&&)> done) {
  if (engine_options.placement == nullptr) return done(run_of(name));
  engine_options.placement->enter(name, [this, name, done = std::move(done)](const RunPlacement::Answer& answer) {
    switch (answer.kind) {
      case RunPlacement::Answer::kHere:
        return done(run_of(name));
      case RunPlacement::Answer::kElsewhere:
        return done({nullptr, v1::FAULT_CAUSE_MOVED, answer.why, answer.server});
      case RunPlacement::Answer::kNotNow:
        return done({nullptr, v1::FAULT_CAUSE_SHUTTING_DOWN, answer.why});
    }
  });
}

std::shared_ptr<RunHandle> Engine::Impl::in_memory(const std::string& name_or_uid) {
  std::lock_guard lock(runs_mutex);
  if (const auto it = runs.find(name_or_uid); it != runs.end()) return it->second;
  const auto it =
      std::find_if(runs.begin(), runs.end(), [&](const auto& entry) { return entry.second->run->run_uid() == name_or_uid; });
  return it == runs.end() ? nullptr : it->second;
}

void Engine::Impl::load_running() {
  std::lock_guard lock(runs_mutex);
  for (const RunRow& row : store.list_running(kMaxLoadedAtStart)) {
    try {
      load(row);
    } catch (const StoreError& error) {
      spdlog::error("run '{}' cannot be read back: {}", row.name, error.what());
    }
  }
}

// A lost run leaves memory with what is open of it; when it is gone for good it comes back, to be told so (see Run::tick).
void Engine::Impl::look_for_gone() {
  const std::int64_t steady = engine_clock.steady_ms();
  if (gone_looked_ms && steady - *gone_looked_ms < kGoneEveryMs) return;
  gone_looked_ms = steady;
  const std::int64_t now = engine_clock.wall_ms();
  try {
    for (const RunRow& row : store.list_lost(kMaxLost)) {
      v1::GetRunResponse stored;
      if (!stored.ParseFromString(row.overview) || stored.run().instance() != engine_options.instance) continue;
      std::int64_t seen = row.last_report_ms;
      for (const v1::RankSummary& rank : stored.ranks()) seen = std::max(seen, rank.last_seen_ms());
      const std::int64_t after = rules.of(row.name).run_gone_after_ms;
      if (after == 0 || now - seen < after) continue;
      std::lock_guard lock(runs_mutex);
      if (stopping || runs.contains(row.name) || runs.size() >= engine_options.max_runs) continue;
      load(row)->run->note_silence(row);
    }
  } catch (const StoreError& error) {
    spdlog::warn("runs that are lost were not looked at: {}", error.what());
  }
}

// ---- commits, room, timers ------------------------------------------------------------------------------------------

void Engine::Impl::after_commit() {
  for (const auto& stream : to_ack) stream->send_ack();
  to_ack.clear();
  resume_waiting();
}

void Engine::Impl::resume_waiting() {
  std::vector<std::shared_ptr<StreamImpl>> candidates;
  {
    std::lock_guard lock(streams_mutex);
    candidates.swap(waiting);
  }
  std::erase_if(candidates, [](const auto& stream) { return stream->resume_if_room(); });
  std::lock_guard lock(streams_mutex);
  waiting.insert(waiting.end(), candidates.begin(), candidates.end());
}

void Engine::Impl::arm_timer() {
  timer.expires_after(kTick);
  timer.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping) return;
    on_tick();
    arm_timer();
  });
}

void Engine::Impl::on_tick() {
  resume_waiting();  // in case the last commit came between a stream's look and its wait
  const bool all = ++ticks % kIdleTicks == 0;
  const std::int64_t now = engine_clock.steady_ms();
  {
    std::lock_guard lock(runs_mutex);
    for (const auto& [name, handle] : runs) {
      if (all || now - handle->run->last_input_ms() < kQuietMs) tick(handle);
    }
  }
  if (!all) return;
  look_for_gone();
  std::lock_guard lock(streams_mutex);
  std::erase_if(streams, [](const auto& stream) { return stream.expired(); });
}

void Engine::Impl::tick(const std::shared_ptr<RunHandle>& handle) {
  handle->post([this, handle] {
    Run& run = *handle->run;
    if (handle->forgotten) return;
    run.tick();
    if (run.busy() || engine_clock.steady_ms() - run.last_input_ms() < kForgetMs) return;
    // What it staged is not in the store: whoever came would be given an older state of it.
    if (pipeline.health(run.run_uid()).degraded) return;
    run.stage_final();
    handle->forgotten = true;
    std::lock_guard lock(runs_mutex);
    runs.erase(run.name());
  });
}

void Engine::Impl::stop() {
  stopping = true;
  {
    std::lock_guard lock(streams_mutex);
    for (const auto& weak : streams) {
      if (auto stream = weak.lock())
        stream->end(v1::FAULT_CAUSE_SHUTTING_DOWN, "the server is shutting down: connect again later");
    }
  }
  asio::post(timer.get_executor(), [this] { timer.cancel(); });
  {
    std::lock_guard lock(runs_mutex);
    for (const auto& [name, handle] : runs) handle->post([run = handle->run] { run->stage_final(); });
  }
  pool.join();  // what was taken is folded and staged
  pipeline.stop();
  run_events.close();
  alert_events.close();
  std::lock_guard lock(streams_mutex);
  waiting.clear();
}

// ---- the engine -----------------------------------------------------------------------------------------------------

Engine::Engine(EngineOptions options, HistoryStore& store, AlertOutbox& outbox, Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), store, outbox, clock)) {
  if (impl_->engine_options.placement == nullptr) impl_->load_running();
  impl_->arm_timer();
}

Engine::~Engine() {
  stop();
}

std::shared_ptr<Stream> Engine::attach(std::shared_ptr<StreamPeer> peer) {
  auto stream = std::make_shared<StreamImpl>(*impl_, std::move(peer));
  std::lock_guard lock(impl_->streams_mutex);
  impl_->streams.push_back(stream);
  return stream;
}

void Engine::acknowledge(const std::string& alert_id, const std::string& who, const std::string& comment,
                         std::function<void(const Status& status)> done) {
  const auto slash = alert_id.find('/');
  const std::string run_uid = alert_id.substr(0, slash);
  const auto not_now = [&](const std::string& why) {
    done({Status::kUnavailable, "alert '" + alert_id + "' can't be acknowledged now, try again later: " + why});
  };
  std::shared_ptr<RunHandle> handle = impl_->in_memory(run_uid);
  if (!handle && slash != std::string::npos) {
    try {
      if (const auto row = impl_->store.find_run(run_uid); row && row->run_uid == run_uid) {
        StreamHost::Lookup found = impl_->run_of(row->name);
        if (!found.handle) return not_now(found.error);
        handle = std::move(found.handle);
      }
    } catch (const StoreError& error) {
      return not_now(error.what());
    }
  }
  if (!handle) {
    return done({Status::kNotFound, "unknown alert '" + alert_id + "'; list alerts for the ids that exist"});
  }
  handle->post([this, handle, finding = alert_id.substr(slash + 1), alert_id, who, comment, done = std::move(done)] {
    if (handle->forgotten) {
      // The run left memory between the look-up and now: once more, from the store, if it is this server's still.
      if (impl_->engine_options.placement == nullptr) return acknowledge(alert_id, who, comment, done);
      return done({Status::kUnavailable, "the run of alert '" + alert_id + "' is moving: try again later"});
    }
    if (handle->run->acknowledge(finding, who, comment, [done] { done({}); })) return;
    done({Status::kFailedPrecondition, "alert '" + alert_id + "' is not open: it is unknown or already resolved"});
  });
}

void Engine::change_rules(std::function<domain::Thresholds(const std::string& run)> thresholds_of) {
  impl_->rules.change(std::move(thresholds_of));
  std::lock_guard lock(impl_->runs_mutex);
  for (const auto& [name, handle] : impl_->runs) {
    handle->post([handle] {
      if (!handle->forgotten) handle->run->take_rules();
    });
  }
}

void Engine::adopt(const std::string& run) {
  std::lock_guard lock(impl_->runs_mutex);
  if (impl_->stopping || impl_->runs.contains(run)) return;
  if (const auto row = impl_->store.find_named(run)) impl_->load(*row);
}

void Engine::hand_over(const std::string& run, const std::string& instance, std::function<void(const Leave& leave)> done) {
  const auto handle = impl_->in_memory(run);
  if (!handle || handle->run->name() != run) return done([](const std::string& /*server*/) {});
  handle->post([this, handle, instance, done = std::move(done)] {
    std::vector<std::shared_ptr<StreamImpl>> streams;
    if (!handle->forgotten) {
      streams = handle->run->hand_over(instance);
      handle->forgotten = true;
      std::lock_guard lock(impl_->runs_mutex);
      impl_->runs.erase(handle->run->name());
    }
    const Leave leave = [streams = std::move(streams), name = handle->run->name()](const std::string& server) {
      for (const auto& stream : streams) {
        if (server.empty()) {
          stream->end(v1::FAULT_CAUSE_SHUTTING_DOWN, "run '" + name + "' is with another server: connect to that one", 0, {});
        } else {
          stream->end(v1::FAULT_CAUSE_MOVED, "run '" + name + "' goes on at " + server + ": connect there", 0, server);
        }
      }
    };
    // After what was staged.
    impl_->pipeline.submit({{}, [done, leave] { done(leave); }, handle->run->run_uid(), true});
  });
}

void Engine::replicated(const std::string& run_uid) {
  const auto handle = impl_->in_memory(run_uid);
  if (!handle) return;
  handle->post([handle] {
    if (!handle->forgotten) handle->run->note_replicated();
  });
}

bool Engine::holds(const std::string& name_or_uid) const {
  return impl_->in_memory(name_or_uid) != nullptr;
}

bool Engine::unless_held(const std::string& run, const std::function<void()>& work) {
  {
    std::lock_guard lock(impl_->runs_mutex);
    if (impl_->runs.contains(run)) return false;
    if (!work) return true;
    impl_->being_removed.insert(run);
  }
  const auto done = [this, &run](void* /*unused*/) {
    std::lock_guard lock(impl_->runs_mutex);
    impl_->being_removed.erase(run);
  };
  const std::unique_ptr<void, decltype(done)> at_the_end(impl_.get(), done);  // also when the store refuses
  work();
  return true;
}

void Engine::submit(std::vector<OutboxUpdate> updates) {
  CommitBatch batch;
  batch.outbox_updates = std::move(updates);
  submit(std::move(batch), {});
}

void Engine::submit(CommitBatch batch, std::function<void()> on_durable) {
  impl_->pipeline.submit({std::move(batch), std::move(on_durable)});
}

std::vector<std::shared_ptr<const v1::GetRunResponse>> Engine::overviews() const {
  std::vector<std::shared_ptr<const v1::GetRunResponse>> out;
  for (RunShown& run : shown()) out.push_back(std::move(run.overview));
  return out;
}

std::vector<RunShown> Engine::shown() const {
  std::vector<std::shared_ptr<RunHandle>> handles;
  {
    // Joins wait for this lock: it is held for copies of pointers only.
    std::lock_guard lock(impl_->runs_mutex);
    handles.reserve(impl_->runs.size());
    for (const auto& [name, handle] : impl_->runs) handles.push_back(handle);
  }
  std::vector<RunShown> out;
  out.reserve(handles.size());
  for (const auto& handle : handles) {
    if (RunShown shown = handle->run->shown(); shown.overview) out.push_back(std::move(shown));
  }
  return out;
}

EngineStats Engine::stats() const {
  const Counters& counters = impl_->engine_counters;
  const CommitPipeline::Stats commits = impl_->pipeline.stats();
  const CommitPipeline::Health health = impl_->pipeline.health();
  EngineStats out;
  out.reports = counters.reports;
  out.records = counters.records;
  out.reports_repeated = counters.reports_repeated;
  out.reports_rejected = counters.reports_rejected;
  out.reports_lost = counters.reports_lost;
  out.reports_thinned = counters.reports_thinned;
  out.reports_late = counters.reports_late;
  out.streams_fenced = counters.streams_fenced;
  out.streams_open = counters.streams_open;
  out.queued_bytes = counters.queued_bytes;
  out.queue_limit = impl_->engine_options.total_queue_bytes;
  out.commits = commits.commits;
  out.commit_errors = commits.errors;
  out.committed_bytes = commits.bytes;
  out.commit_durations = commits.durations;
  out.lag_seconds = health.oldest_seconds;
  out.history_degraded = health.degraded;
  return out;
}

Feed<RunEvent>& Engine::run_feed() {
  return impl_->run_events;
}
Feed<v1::Alert>& Engine::alert_feed() {
  return impl_->alert_events;
}

void Engine::stop() {
  std::call_once(impl_->stopped, [this] { impl_->stop(); });
}

}  // namespace scalewatch::engine
