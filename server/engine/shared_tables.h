// One copy of a tensor table for all ranks that have the same: a thousand ranks of one model hold its names once.
//
// Thread-safe. A table goes with the last rank that holds it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "server/domain/observation.h"

namespace scalewatch::engine {

class SharedTables {
 public:
  using Table = std::shared_ptr<const domain::TensorTable>;

  // An equal table that somebody holds already, else this one. Never null; `table` must not be.
  Table share(Table table);

 private:
  std::mutex mutex_;
  std::unordered_multimap<std::uint64_t, std::weak_ptr<const domain::TensorTable>> tables_;  // by table_hash
  std::size_t sweep_at_ = 64;  // entries at which those that are gone are removed
};

}  // namespace scalewatch::engine
