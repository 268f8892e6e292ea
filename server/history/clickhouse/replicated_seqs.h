// Up to which seq of each client start ClickHouse has all: in memory for runs that are asked about, in the store for all.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "server/history/feed_state.h"

namespace scalewatch::clickhouse {

class ReplicatedSeqs {
 public:
  explicit ReplicatedSeqs(history::FeedState& state) : state_(state) {}

  // 0: nothing. Throws StoreError.
  std::uint64_t of(const std::string& run_uid, std::uint32_t rank, const engine::Incarnation& incarnation);
  // More is there, and the store knows.
  void sent(const std::map<history::FeedState::Stream, std::uint64_t>& seqs);
  // What the store knows of the run has changed; it is read when it is asked for.
  void forget(const std::string& run_uid);
  void keep_only(const std::function<bool(const std::string& run_uid)>& is_kept);

 private:
  using Seqs = std::map<std::pair<std::uint32_t, engine::Incarnation>, std::uint64_t>;

  history::FeedState& state_;
  std::mutex mutex_;
  std::map<std::string, Seqs> runs_;
  std::uint64_t changes_ = 0;  // of what the store knows
};

}  // namespace scalewatch::clickhouse
