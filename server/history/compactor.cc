#include "server/history/compactor.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "scalewatch/v1/alerts.pb.h"
#include "server/engine/ports/history_store.h"
#include "server/history/keys.h"
#include "server/history/row_check.h"
#include "server/history/scaler_sums.h"
#include "server/history/seal.h"

namespace scalewatch::history {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxRows = 40;  // of background work in one transaction
constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxStretchBytes = std::size_t{48} << 20;  // of payloads: bounds the memory of a wide model's stretch
constexpr std::size_t kMinReports = 16;                          // whatever they weigh
constexpr std::size_t kMaxKept = 8;                              // payloads of a stretch that stay
constexpr int kMaxFindings = 200;                                // of a run, newest first, that keep payloads
constexpr std::size_t kTrimAt = 1024;
constexpr auto kTrimAfter = 1s;
constexpr auto kLookAround = 1s;
constexpr int kNice = 19;

// The store closes: what was begun is left as a kill would leave it.
struct Stopped {};

}  // namespace

Compactor::Compactor(const std::string& path, const CompactionOptions& options, Write write, IdleWork idle)
    : options_(options),
      write_(std::move(write)),
      idle_(std::move(idle)),
      reader_(std::make_unique<Connection>(path, SQLITE_OPEN_READONLY)) {
  load();
  if (options_.thread) thread_ = std::thread([this] { loop(); });
}

Compactor::~Compactor() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Compactor::reported(const std::map<std::int64_t, std::size_t>& reports) {
  if (reports.empty()) return;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [stream, count] : reports) news_[stream] += count;
  }
  wake_.notify_one();
}

CompactionStats Compactor::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Compactor::loop() {
  // What trains and what commits goes first. On Linux the number is the thread's own.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  pthread_setname_np(pthread_self(), "compactor");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    const auto start = Clock::now();
    bool more = false;
    std::string error;
    try {
      more = step(false);
    } catch (const engine::StoreError& caught) {
      error = caught.what();
    } catch (const Stopped&) {
      return;
    }
    lock.lock();
    stats_.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    if (!error.empty()) spdlog::warn("compaction waits: {}", error);
    if (!more && !stop_) wake_.wait_for(lock, error.empty() ? kLookAround : 5 * kLookAround, [&] { return stop_; });
  }
}

void Compactor::check_stop() const {
  std::lock_guard lock(mutex_);
  if (stop_) throw Stopped{};
}

void Compactor::run_now(bool everything) {
  while (step(everything)) {
  }
}

void Compactor::load() {
  Query streams(*reader_, "SELECT id, (SELECT max(seq) FROM reports WHERE stream = streams.id) FROM streams WHERE id <= ?",
                kMaxStream);
  while (streams.step()) {
    Stream state;
    const std::int64_t stream = streams.i64(0);
    Query newest(*reader_, "SELECT number, last_seq FROM stretches WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 2",
                 stretch_key(stream, 0), stretch_key(stream, kMaxStretch));
    if (newest.step()) {
      state.next = newest.i64(0) + 1;
      state.last_seq = newest.u64(1);
      if (newest.step()) state.trimmed_seq = newest.u64(1);
    }
    const std::uint64_t newest_seq = streams.u64(1);  // 0 when there is none
    state.waiting = newest_seq > state.last_seq ? newest_seq - state.last_seq : 0;
    streams_.emplace(stream, state);
  }
  Query payloads(*reader_,
                 "SELECT reports.id, reports.stream, reports.seq FROM payloads JOIN reports ON reports.id = payloads.id "
                 "WHERE NOT retrospective AND payloads.id NOT IN (SELECT id FROM kept_payloads)");
  while (payloads.step()) {
    const auto found = streams_.find(payloads.i64(1));
    if (found != streams_.end() && payloads.u64(2) <= found->second.trimmed_seq) released_.push_back(payloads.i64(0));
  }
}

Compactor::Stream& Compactor::state_of(std::int64_t stream) {
  return streams_.try_emplace(stream).first->second;
}

// The first stretch is shorter by stream, so that streams which began together don't all come due at once.
std::size_t Compactor::wanted(std::int64_t stream, const Stream& state) {
  return state.next == 0 ? kStretchReports - static_cast<std::size_t>(stream % 16) * 6 : kStretchReports;
}

bool Compactor::step(bool everything) {
  std::map<std::int64_t, std::size_t> news;
  {
    std::lock_guard lock(mutex_);
    news.swap(news_);
  }
  const auto now = Clock::now();
  for (const auto& [stream, count] : news) {
    if (stream > kMaxStream) continue;
    Stream& state = state_of(stream);
    state.waiting += count;
    state.newest = now;
    state.finished = false;
  }
  std::uint64_t waiting = 0;
  for (const auto& [stream, state] : streams_) {
    if (!state.stuck && state.waiting >= wanted(stream, state)) waiting += state.waiting;
  }
  {
    std::lock_guard lock(mutex_);
    stats_.waiting_reports = waiting;
  }
  if (!options_.enabled) return idle(everything);
  if (std::exchange(kept_, keep_unsent_.load()) && !kept_) release_kept();
  if (released_.size() >= kTrimAt || (!released_.empty() && (!options_.thread || now - released_since_ >= kTrimAfter))) {
    trim();
    return true;
  }
  // Round robin: a fast stream does not keep the others waiting.
  const auto begin = streams_.upper_bound(after_);
  std::vector<std::map<std::int64_t, Stream>::iterator> order;
  for (auto it = begin; it != streams_.end(); ++it) order.push_back(it);
  for (auto it = streams_.begin(); it != begin; ++it) order.push_back(it);
  for (const auto& it : order) {
    auto& [stream, state] = *it;
    if (state.stuck || state.next > kMaxStretch) continue;
    const bool idle = everything || now - state.newest >= options_.idle_after;
    if (state.waiting < wanted(stream, state) && (!idle || state.finished)) continue;
    after_ = stream;
    if (state.waiting >= wanted(stream, state) || (idle && state.waiting > 0)) {
      compact(stream, state, idle);
      return true;
    }
    release(stream, state, state.last_seq, true);
    state.finished = true;
    return true;
  }
  return idle(everything);
}

bool Compactor::idle(bool everything) {
  const Idle did = idle_ ? idle_(everything) : Idle::kNothing;
  if (did == Idle::kNothing) return false;
  if (did == Idle::kSomething) return true;
  // Streams that are no more: their ids may be given out again.
  std::erase_if(streams_, [&](const auto& entry) {
    Query known(*reader_, "SELECT 1 FROM streams WHERE id = ?", entry.first);
    return !known.step();
  });
  return true;
}

Compactor::Home Compactor::home(std::int64_t stream) {
  Query query(*reader_,
              "SELECT runs.id, runs.uid, streams.segment, streams.rank FROM streams JOIN runs ON runs.id = streams.run "
              "WHERE streams.id = ?",
              stream);
  if (!query.step()) return {};
  return {query.i64(0), query.bytes(1), query.u32(2), query.u32(3)};
}

void Compactor::open_stream(std::int64_t stream, Stream& state) {
  const std::int64_t begin = chunk_key(stream, state.next, 0);
  const std::int64_t end = chunk_key(stream + 1, 0, 0);
  for (bool more = true; more;) {
    Query left(*reader_, "SELECT count(*) FROM (SELECT id FROM chunks WHERE id >= ? AND id < ? LIMIT 1)", begin, end);
    more = left.step() && left.i64(0) > 0;
    if (!more) break;
    write_(WriteClass::kCompaction, [&](Connection& writer) {
      Query(writer, "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE id >= ? AND id < ? LIMIT ?)", begin, end,
            kMaxRows)
          .run();
    });
  }
  state.opened = true;
}

void Compactor::compact(std::int64_t stream, Stream& state, bool idle) {
  const std::size_t most = wanted(stream, state);
  if (!state.opened) open_stream(stream, state);
  bool whole = true;
  const std::vector<TableTensor> tensors = stored_table(*reader_, stream, &whole);
  if (!whole) {
    spdlog::warn("the tensor table of stream {} is damaged: its reports stay rows", stream);
    state.stuck = true;
    return;
  }
  StretchBuilder builder(tensors);
  std::vector<std::int64_t> ids;
  std::vector<std::uint64_t> seqs;
  {
    Query rows(*reader_,
               "SELECT reports.id, seq, attempt, payload, " SCALEWATCH_REPORT_CHECKED
               " FROM reports JOIN payloads ON payloads.id = reports.id "
               "WHERE stream = ? AND seq > ? AND NOT retrospective ORDER BY seq LIMIT ?",
               stream, state.last_seq, most);
    std::size_t bytes = 0;
    bool ended = false;
    while ((ids.size() < kMinReports || bytes < kMaxStretchBytes) && !ended) {
      ended = !rows.step();
      if (ended) break;
      // What was damaged must not get a seal of its own.
      const auto payload = unsealed(rows, 3);
      if (!payload || !row_is_whole(rows, 4) || !builder.add(rows.u64(2), *payload)) {
        if (ids.empty()) {
          spdlog::warn("report {} of stream {} can't be packed: what follows it stays rows", rows.u64(1), stream);
          state.stuck = true;
        }
        break;
      }
      bytes += payload->size();
      ids.push_back(rows.i64(0));
      seqs.push_back(rows.u64(1));
    }
    // Announced losses counted as reports: there are fewer than it seemed.
    if (ids.empty() || (ended && ids.size() < most && !idle)) {
      state.waiting = ids.size();
      return;
    }
  }

  std::vector<ChunkRow> chunks;
  std::size_t begin = 0;
  std::size_t bytes = 0;
  const auto flush = [&] {
    if (begin == chunks.size()) return;
    write_(WriteClass::kCompaction, [&](Connection& writer) {
      for (std::size_t i = begin; i < chunks.size(); ++i) write_chunk(writer, {stream, state.next}, chunks[i]);
    });
    for (; begin < chunks.size(); ++begin) {
      std::string().swap(chunks[begin].frames);
      std::vector<std::string>().swap(chunks[begin].scores);
    }
    bytes = 0;
  };
  builder.chunks([&](ChunkRow chunk) {
    check_stop();
    if (chunk.block > kMaxBlock) return;
    if (bytes + chunk.frames.size() > kMaxBytes || chunks.size() - begin == kMaxRows) flush();
    bytes += chunk.frames.size();
    chunks.push_back(std::move(chunk));
  });
  flush();
  publish(stream, state, builder, chunks, ids, seqs);
}

std::vector<std::int64_t> Compactor::kept(const Home& home, const StretchBuilder& builder, const std::vector<std::int64_t>& ids,
                                          const std::vector<std::uint64_t>& attempts) {
  std::vector<std::int64_t> kept;
  const auto keep = [&](std::size_t place) {
    if (kept.size() < kMaxKept && std::find(kept.begin(), kept.end(), ids[place]) == kept.end()) kept.push_back(ids[place]);
  };
  Query alerts(*reader_, "SELECT alert FROM alerts WHERE run_uid = ? ORDER BY fired_ms DESC LIMIT ?", home.run_uid,
               kMaxFindings);
  while (alerts.step()) {
    v1::Alert alert;
    if (!alert.ParseFromString(alerts.bytes(0)) || alert.finding().segment() != home.segment) continue;
    for (const std::uint64_t attempt : {alert.finding().first_attempt(), alert.finding().blame().attempt()}) {
      const auto found = std::lower_bound(attempts.begin(), attempts.end(), attempt);
      if (found != attempts.end() && *found == attempt) keep(static_cast<std::size_t>(found - attempts.begin()));
    }
  }
  for (std::size_t place = 0; place < ids.size(); ++place) {
    if (builder.non_finite(place)) keep(place);
  }
  return kept;
}

void Compactor::publish(std::int64_t stream, Stream& state, StretchBuilder& builder, const std::vector<ChunkRow>& chunks,
                        const std::vector<std::int64_t>& ids, const std::vector<std::uint64_t>& seqs) {
  const Home where = home(stream);
  const std::string packed = builder.attempts();
  const auto attempts = read_attempts(packed, ids.size());
  const auto keep = kept(where, builder, ids, attempts);
  const std::string detail = builder.detail();
  const StretchPlace place{stream, state.next, ids.size(), attempts.front(), attempts.back()};
  // One transaction however wide the model is: these rows make the stretch visible.
  write_(WriteClass::kCompaction, [&](Connection& writer) {
    for (const auto& chunk : chunks) write_summary(writer, place, chunk);
    for (const std::int64_t id : keep) Query(writer, "INSERT OR IGNORE INTO kept_payloads (id) VALUES (?)", id).run();
    Query(writer,
          "INSERT INTO stretches (id, stream, number, reports, first_attempt, last_attempt, first_seq, last_seq, attempts, "
          "detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          stretch_key(stream, state.next), stream, state.next, ids.size(), attempts.front(), attempts.back(), seqs.front(),
          seqs.back(), Blob{packed}, Blob{detail})
        .run();
    sum_scalers(writer, where.run, where.segment, attempts.front(), attempts.back());
  });
  const std::uint64_t before = state.last_seq;
  ++state.next;
  state.last_seq = seqs.back();
  state.waiting -= std::min<std::uint64_t>(state.waiting, ids.size());
  release(stream, state, before, false);
  std::lock_guard lock(mutex_);
  ++stats_.stretches;
  for (const auto& chunk : chunks) stats_.records += chunk.records;
}

void Compactor::release(std::int64_t stream, Stream& state, std::uint64_t seq, bool idle) {
  state.due_seq = std::max(state.due_seq, seq);
  if (keep_unsent_ && !idle) {
    Query sent(*reader_, "SELECT seq FROM feed_streams WHERE stream = ?", stream);
    seq = std::min(seq, sent.step() ? sent.u64(0) : 0);
  }
  if (seq <= state.trimmed_seq) return;
  Query rows(*reader_,
             "SELECT id FROM reports WHERE stream = ? AND seq > ? AND seq <= ? AND NOT retrospective "
             "AND id NOT IN (SELECT id FROM kept_payloads)",
             stream, state.trimmed_seq, seq);
  if (released_.empty()) released_since_ = Clock::now();
  while (rows.step()) released_.push_back(rows.i64(0));
  state.trimmed_seq = seq;
}

void Compactor::release_kept() {
  for (auto& [stream, state] : streams_) release(stream, state, state.due_seq, false);
}

// In order of ids, across streams: rows that were written together lie on the same pages.
void Compactor::trim() {
  std::sort(released_.begin(), released_.end());
  for (std::size_t begin = 0; begin < released_.size(); begin += kMaxRows) {
    check_stop();
    const std::size_t end = std::min(begin + kMaxRows, released_.size());
    write_(WriteClass::kCompaction, [&](Connection& writer) {
      for (std::size_t i = begin; i < end; ++i) Query(writer, "DELETE FROM payloads WHERE id = ?", released_[i]).run();
    });
  }
  released_.clear();
}

}  // namespace scalewatch::history
