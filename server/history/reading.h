// One request's view of the history file: a read transaction that is begun when first needed and renewed before it gets long.
// Not thread-safe. One request holds one connection at a time, so that requests never wait for each other's second one.
#pragma once

#include <optional>

#include "server/history/read_pool.h"

namespace scalewatch::history {

class Reading {
 public:
  explicit Reading(ReadPool& pool) : pool_(pool) {}

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
};

}  // namespace scalewatch::history
