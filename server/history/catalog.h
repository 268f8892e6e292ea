// The tensors of one segment of a run, joined over the tables of all of its incarnations.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scalewatch/v1/types.pb.h"
#include "server/history/read_pool.h"

namespace scalewatch::history {

// Immutable once made.
struct Catalog {
  struct Tensor {
    v1::TensorInfo info;  // of the lowest rank; of several shards: their numel added, no shard named
    std::uint32_t ranks = 0;
  };
  // What an id of one incarnation's table means.
  struct Slot {
    std::uint32_t tensor = kNone;  // in `tensors`
    std::uint32_t shard = 0;       // equal for equal shard names
    std::uint64_t numel = 0;
  };
  struct Stream {
    std::uint32_t rank = 0;
    std::uint64_t order = 0;                         // a larger one is the newer incarnation of its rank
    std::shared_ptr<const std::vector<Slot>> slots;  // by tensor id; shared by incarnations with equal tables
  };
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::vector<Tensor> tensors;                       // by forward index, role, name
  std::unordered_map<std::int64_t, Stream> streams;  // by streams.id

  // Positions of the tensors with this name.
  [[nodiscard]] std::vector<std::uint32_t> find(std::string_view name) const;
  // First tensor after this key, by the order of `tensors`.
  [[nodiscard]] std::size_t after(std::uint32_t forward_index, std::int32_t role, std::string_view name) const;
};

// Keeps the newest catalogs, for they are costly to join. Thread-safe.
class CatalogCache {
 public:
  explicit CatalogCache(ReadPool& pool) : pool_(pool) {}
  // As of now: a table that grew since makes a new one. Throws StoreError, and ApiError for more tensors than fit memory.
  std::shared_ptr<const Catalog> get(std::int64_t run, std::uint32_t segment);

 private:
  struct Key {  // of a stream's table: changes when it grows
    std::int64_t stream = 0;
    std::uint32_t rank = 0;
    std::uint64_t order = 0;
    std::uint32_t versions = 0;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    std::int64_t run = 0;
    std::uint32_t segment = 0;
    std::vector<Key> keys;
    std::shared_ptr<const Catalog> catalog;
  };
  std::vector<Key> keys(std::int64_t run, std::uint32_t segment);
  std::shared_ptr<const Catalog> build(const std::vector<Key>& keys);
  std::vector<std::string> deltas(std::int64_t stream);

  ReadPool& pool_;
  std::mutex mutex_;
  std::vector<Entry> entries_;  // newest last
};

}  // namespace scalewatch::history
