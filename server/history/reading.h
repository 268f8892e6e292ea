// One request's view of the history file: a read transaction that is begun when first needed and renewed before it gets long.
// Not thread-safe. One request holds one connection at a time, so that requests never wait for each other's second one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "server/history/read_pool.h"

namespace scalewatch::history {

class OlderHistory;
class OlderReading;

class Reading {
 public:
  // `older`: of what the file does not have; null: there is none.
  explicit Reading(ReadPool& pool, OlderHistory* older = nullptr);
  ~Reading();

  // Open queries and blobs must be gone when it is called, for it may renew the transaction.
  Connection& connection() {
    if (lease_ && lease_->page_over()) pause();
    if (!lease_) lease_.emplace(pool_);
    return **lease_;
  }
  // The frames of chunks; the same rule.
  BlobReader& frames() {
    Connection& now = connection();
    if (!frames_) frames_.emplace(now, "chunks", "frames");
    return *frames_;
  }
  // What is older than the file has it, of a segment; null: nothing. Valid until it is asked for another segment.
  OlderReading* older(std::int64_t run, std::uint32_t segment);
  // The same of the segment that was asked for last.
  [[nodiscard]] OlderReading* older() const { return segment_.get(); }
  [[nodiscard]] bool page_over() const { return lease_ && lease_->page_over(); }
  // Gives the connection back until it is needed again.
  void pause() {
    frames_.reset();
    lease_.reset();
  }

 private:
  ReadPool& pool_;
  std::optional<ReadPool::Lease> lease_;
  std::optional<BlobReader> frames_;
  OlderHistory* const older_;
  std::unique_ptr<OlderReading> segment_;
  std::optional<std::pair<std::int64_t, std::uint32_t>> asked_;
};

}  // namespace scalewatch::history
