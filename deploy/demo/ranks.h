// Ranks side by side on one machine: processes that average their fp16 gradients through shared memory, as data-parallel jobs
// do through NCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "deploy/demo/arithmetic.h"

namespace scalewatch::demo {

class RankGroup {
 public:
  // Made before the ranks fork. elements: of all gradients together. Throws std::runtime_error when memory is short.
  RankGroup(std::uint32_t ranks, std::size_t elements);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  [[nodiscard]] std::uint32_t ranks() const { return ranks_; }
  // Replaces each rank's tensors by their mean over ranks. Each rank divides by the number of ranks, then the sum is taken in
  // fp16 in the order of ranks: all ranks get the same bits. Blocks until every rank has called it.
  void average(std::uint32_t rank, std::span<const std::span<Half>> tensors);
  // True on every rank when at least one of them asks to stop. Blocks as average() does.
  bool any(std::uint32_t rank, bool stop);

 private:
  struct Shared;
  void wait();
  Half* gradients(std::uint32_t rank);

  std::uint32_t ranks_;
  std::size_t elements_;
  std::size_t flags_at_ = 0;  // byte offsets within the shared memory
  std::size_t gradients_at_ = 0;
  std::size_t bytes_ = 0;
  Shared* shared_ = nullptr;  // null with one rank
};

// Runs body(rank) in one process a rank and returns the first exit status that is not 0. Signals that end a job (INT, TERM) go
// to every rank. A rank that dies takes the others with it after a second, as a launcher of such jobs does.
int run_ranks(std::uint32_t ranks, const std::function<int(std::uint32_t rank)>& body);

}  // namespace scalewatch::demo
