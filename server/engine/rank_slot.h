// One incarnation of a rank: what its stream folds and what the run's strand knows of it.
//
// The stream side is guarded by `mutex` (a reconnect may overlap the old connection's last message); the strand side belongs
// to the run's strand; the fixed part never changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "scalewatch/v1/ingest.pb.h"
#include "server/domain/collection.h"
#include "server/domain/rank_state.h"
#include "server/engine/ports/history_store.h"
#include "server/engine/rules_codec.h"
#include "server/engine/tensor_meter.h"

namespace scalewatch::engine {

class StreamImpl;

struct RankSlot {
  // Fixed.
  domain::Rank rank = 0;
  Incarnation incarnation{};
  std::uint64_t order = 0;
  std::uint32_t segment = 1;
  domain::Attempt attempt_base = 0;
  v1::Hello hello;
  bool hello_lost = false;  // the stored one can't be read: the next connection brings it again

  // Stream side.
  std::mutex mutex;
  const StreamImpl* owner = nullptr;  // the one stream that may fold
  std::shared_ptr<const domain::TensorTable> table = std::make_shared<domain::TensorTable>();
  std::uint32_t table_version = 0;
  domain::RankState state;
  TensorMeter meter;
  std::shared_ptr<const domain::Thresholds> rules = built_in_rules();  // that `state` goes by
  std::shared_ptr<const domain::Thresholds> next_rules;                // and from the next report on; null = the same
  std::uint64_t last_seq = 0;                                          // taken from the client
  domain::Attempt last_attempt = 0;                                    // of the incarnation's own numbering
  std::uint64_t last_attempt_seq = 0;         // of the report that it came with, since this server began
  std::atomic<bool> want_state{true};         // the strand asks for a copy of `state` with the next report
  std::atomic<std::int64_t> last_seen_ms{0};  // steady clock
  std::atomic<int> phase{0};                  // v1::Phase, newest told by report or heartbeat
  std::atomic<bool> held_back{false};         // the server does not read its stream for want of room

  // Any thread. Acks speak of the incarnation, not of the connection that brought a report: they go to whoever is connected.
  std::atomic<std::uint64_t> folded_seq{0};
  std::atomic<std::uint64_t> durable_seq{0};
  std::atomic<std::uint64_t> replicated_seq{0};
  [[nodiscard]] std::shared_ptr<StreamImpl> stream() const {
    std::lock_guard lock(stream_mutex);
    return current_stream.lock();
  }
  void attach(const std::shared_ptr<StreamImpl>& stream) {
    std::lock_guard lock(stream_mutex);
    current_stream = stream;
  }
  mutable std::mutex stream_mutex;
  std::weak_ptr<StreamImpl> current_stream;

  // Strand side.
  bool connected = false;
  bool left = false;
  bool reported_silent = false;    // the domain was told of its silence
  std::int64_t begun_ms = 0;       // steady clock: when this incarnation joined; 0 = before this server began
  std::int64_t moved_ms = 0;       // steady clock: when it connected or went away
  std::uint64_t catch_up_seq = 0;  // what it had sent or kept when it connected: until then it is behind
  std::int64_t left_wall_ms = 0;
  std::uint64_t handled_seq = 0;       // logged: becomes durable with the commit that it was staged in
  domain::Attempt newest_attempt = 0;  // of the segment's numbering
  v1::ClientStats client;
  std::shared_ptr<const RankReading> reading;              // newest; null = none since this server began
  bool shown_here = false;                                 // as the newest overview has it
  std::shared_ptr<const domain::TensorTable> known_table;  // as of the newest delta on the log; null = none
  domain::TableKey table_key;                              // of that
  struct Asked {
    domain::CollectionRequest request;
    std::int64_t expires_ms = 0;  // wall clock
  };
  std::map<std::string, Asked> asked;  // what its stream was told, by id
  struct SavedState {
    std::uint64_t seq = 0;  // folded up to here
    std::uint64_t pos = 0;  // of that report in the run's log
    std::string state;
    std::shared_ptr<const domain::Thresholds> rules = built_in_rules();  // that it went by
  } saved;
  std::shared_ptr<const domain::Thresholds> logged_rules = built_in_rules();  // that `state` goes by, as the log has it
};

}  // namespace scalewatch::engine
