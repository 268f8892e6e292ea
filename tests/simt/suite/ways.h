// Ways to run a launch that must not change a bit of its result.
#pragma once

#include "tests/simt/suite/attempt.h"

namespace simt {

// Blocks and threads in a seeded order, poison by the seed; `resident` blocks take turns.
inline Way shuffled(std::uint64_t seed, unsigned processors, unsigned resident) {
  Way way;
  way.options.blocks = Order::kShuffled;
  way.options.threads = Order::kShuffled;
  way.options.seed = seed;
  way.options.resident_blocks = resident;
  way.options.shared_poison = kPoisons[seed % 2];
  way.poison = kPoisons[seed % 2];
  way.processors = processors;
  return way;
}

inline Way reversed(unsigned processors) {
  Way way;
  way.options.blocks = Order::kReverse;
  way.options.threads = Order::kReverse;
  way.options.shared_poison = kPoisons[1];
  way.poison = kPoisons[1];
  way.processors = processors;
  return way;
}

}  // namespace simt
