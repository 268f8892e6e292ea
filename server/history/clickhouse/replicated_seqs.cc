#include "server/history/clickhouse/replicated_seqs.h"

#include <algorithm>

namespace scalewatch::clickhouse {

std::uint64_t ReplicatedSeqs::of(const std::string& run_uid, std::uint32_t rank, const engine::Incarnation& incarnation) {
  std::unique_lock lock(mutex_);
  auto run = runs_.find(run_uid);
  while (run == runs_.end()) {
    const std::uint64_t before = changes_;
    lock.unlock();
    const auto stored = state_.streams(run_uid);
    lock.lock();
    if (changes_ == before) {
      Seqs& seqs = runs_[run_uid];
      for (const auto& [stream, seq] : stored) seqs[{std::get<1>(stream), std::get<2>(stream)}] = seq;
    }
    run = runs_.find(run_uid);
  }
  const auto found = run->second.find({rank, incarnation});
  return found == run->second.end() ? 0 : found->second;
}

void ReplicatedSeqs::sent(const std::map<history::FeedState::Stream, std::uint64_t>& seqs) {
  const std::lock_guard lock(mutex_);
  ++changes_;
  for (const auto& [stream, seq] : seqs) {
    const auto run = runs_.find(std::get<0>(stream));
    if (run == runs_.end()) continue;
    std::uint64_t& known = run->second[{std::get<1>(stream), std::get<2>(stream)}];
    known = std::max(known, seq);
  }
}

void ReplicatedSeqs::forget(const std::string& run_uid) {
  const std::lock_guard lock(mutex_);
  ++changes_;
  runs_.erase(run_uid);
}

void ReplicatedSeqs::keep_only(const std::function<bool(const std::string& run_uid)>& is_kept) {
  const std::lock_guard lock(mutex_);
  std::erase_if(runs_, [&](const auto& run) { return !is_kept(run.first); });
}

}  // namespace scalewatch::clickhouse
