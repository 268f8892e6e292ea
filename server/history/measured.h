// Records with what they were measured under: how they merge over ranks and attempts, and how they are told.
//
// Pure and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/record/record.h"
#include "scalewatch/v1/types.pb.h"

namespace scalewatch::history {

struct Measured {
  Record record;
  double scale = 1;  // that the values were stored under; finite and > 0
  DType target = DType::kUnspecified;
  std::uint32_t micro_batches = 1;
  std::optional<std::uint32_t> first_bad_micro;
};

// log2(largest finite value of target / unscaled absmax), octaves; absent when there is no finite non-zero element.
std::optional<double> headroom_of(const Measured& measured);

// Adds disjoint elements: counts add, extremes combine. Values stored under different scales are first brought to scale 1.
// Leaves micro_batches alone: shards measure the same ones, attempts do not.
void combine(Measured& into, const Measured& from);

v1::Record to_proto(const Measured& measured);

// One tensor at one attempt, merged over ranks. Distinct shards are added in order of rank. Ranks that hold the same shard are
// replicas: the lowest rank's finite statistics stand for all, with the largest of their NaN and Inf counts, so that no
// non-finite element is lost and none is counted twice after an all-reduce.
class RankMerge {
 public:
  // Ranks come in rising order. `shard` tells shards of the tensor apart.
  void add(std::uint32_t rank, std::uint32_t shard, const Measured& measured);
  [[nodiscard]] bool empty() const { return !any_; }
  [[nodiscard]] Measured total() const;  // of one that is not empty
  // Calls take(rank) for each rank that it is of, rising.
  template <class Take>
  void each_rank(const Take& take) const {
    if (any_) take(first_rank_);
    for (const std::uint32_t rank : ranks_) take(rank);
  }
  void clear();

 private:
  struct Piece {
    std::uint32_t shard = 0;
    Measured measured;
  };
  // The first shard and rank by themselves: mostly there is one of each, and a snapshot merges many tensors.
  bool any_ = false;
  std::uint32_t first_rank_ = 0;
  Piece first_;
  std::vector<Piece> shards_;  // further ones, by lowest rank
  std::vector<std::uint32_t> ranks_;
};

}  // namespace scalewatch::history
