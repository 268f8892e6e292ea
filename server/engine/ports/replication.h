// How far the history that several servers share has what was committed here.
#pragma once

#include <cstdint>
#include <string>

#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

class Replication {
 public:
  virtual ~Replication() = default;
  // Highest seq up to which all of an incarnation's reports and losses are there; 0 = none. Never goes back. Thread-safe; never
  // waits for the network.
  virtual std::uint64_t replicated_seq(const std::string& run_uid, std::uint32_t rank, const Incarnation& incarnation) = 0;
};

}  // namespace scalewatch::engine
