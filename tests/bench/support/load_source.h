// What a rank of a load reports. Not thread-safe: one for each rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/bench/support/capture.h"

namespace scalewatch::bench {

class LoadSource {
 public:
  virtual ~LoadSource() = default;
  // Before the first attempt.
  virtual void declare(Monitor& monitor) = 0;
  // All tensors of one attempt.
  virtual void observe(Monitor& monitor) = 0;
  // That gradients are told to be under.
  [[nodiscard]] virtual double scale() const = 0;
};

// Data that the client measures itself: tensors of 64 elements, each another slice of a pool of random values every time.
std::unique_ptr<LoadSource> make_measured_source(std::uint32_t tensors, std::uint32_t rank);

// Statistics as the demo's tensors had them, as a framework that measures by itself would give them. The tensors are those of
// many demos side by side. Each goes through its attempts to and fro from a place and over a length of its own, so that no two
// reports are equal. `runs` must outlive it.
std::unique_ptr<LoadSource> make_replayed_source(const std::vector<CapturedRun>& runs, std::uint32_t tensors,
                                                 std::uint32_t rank);

}  // namespace scalewatch::bench
