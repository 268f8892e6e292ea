// The results of one attempt (or of several replays of a graph) on their way from a GPU.
//
// Filled on the trainer's thread, handed to the client's with the attempt, and given back by it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/device/abi.h"
#include "cuda/device/device.h"
#include "cuda/record/exponents.h"
#include "cuda/record/record.h"

namespace scalewatch::cuda {

inline constexpr std::uint32_t kNone = UINT32_MAX;

// Whose record it is, in the caller's terms.
struct RecordTag {
  std::uint32_t place = kNone;  // kNone: nobody's
  std::uint32_t micro = 0;
  std::uint32_t scale = kNone;  // index of the scalar that is the scale it was measured under; kNone: known beforehand
};
// What a scalar means, in the caller's terms.
struct ScalarTag {
  std::uint32_t kind = 0;
  std::uint32_t first = 0;
  std::uint32_t second = 0;
};

class Batch {
 public:
  enum class State : std::uint8_t { kFree, kFilling, kSent, kAbandoned };
  enum class Ready : std::uint8_t { kNotYet, kYes, kFailed };

  // ---- client's thread ----
  // Asks the driver, without waiting, whether the results are there. kFailed: they never will be.
  [[nodiscard]] Ready poll() const noexcept;
  // How many result blocks came, oldest first: one, or with a graph one a replay since the last time (those that the ring
  // lost are counted in lost_blocks). Call once, after poll() said kYes.
  std::uint32_t take_blocks() noexcept;
  [[nodiscard]] std::uint64_t lost_blocks() const noexcept { return lost_blocks_; }
  [[nodiscard]] std::size_t records() const noexcept { return record_tags.size(); }
  [[nodiscard]] Record record(std::uint32_t block, std::size_t index) const noexcept;
  [[nodiscard]] std::size_t scalars() const noexcept { return scalar_tags.size(); }
  [[nodiscard]] double scalar(std::uint32_t block, std::size_t index) const noexcept;
  [[nodiscard]] std::size_t exponents() const noexcept { return exponent_tags.size(); }
  // Adds a histogram to others of its tensor.
  void add_exponents(std::size_t index, ExponentCounts& to) const noexcept;
  // GPU time of its kernels in ns; 0 when it was not taken.
  [[nodiscard]] std::uint64_t gpu_ns() const noexcept;
  // The trainer may use it again. One whose event has not come yet must not be.
  void give_back() noexcept { state.store(State::kFree, std::memory_order_release); }

  // ---- trainer's thread ----
  // Nobody wants the results: to be used again once they came.
  void abandon() noexcept { state.store(State::kAbandoned, std::memory_order_relaxed); }

  // ---- the measurer's ----
  std::atomic<State> state{State::kFree};
  Device* device = nullptr;
  Stream stream = nullptr;
  Event done = nullptr;
  Event begin = nullptr, end = nullptr;  // null: not timed
  bool timed = false;
  std::size_t record_room = 0;
  std::vector<RecordTag> record_tags;  // room for all was reserved
  std::vector<ScalarTag> scalar_tags;  // room for all was reserved
  std::size_t exponent_room = 0;
  std::vector<std::uint32_t> exponent_tags;  // the record that a histogram is of; room for all was reserved
  // The results' block on the device, and the pinned memory that it is copied to. Histograms follow the records' room.
  DevicePointer block = 0;
  unsigned char* host = nullptr;
  // What the kernels read: pinned memory, the same on the device, how much is used and how much of the device's is known.
  unsigned char* staging = nullptr;
  DevicePointer packet = 0;
  std::size_t packet_used = 0;
  std::size_t packet_known = 0;
  std::size_t packet_room = 0;
  // Of a graph: `host` holds its whole ring.
  std::uint32_t slots = 1;
  std::uint64_t block_bytes = 0;
  std::uint64_t* collected = nullptr;  // sequence of the next block to come; of the client's thread. Null: no graph

 private:
  [[nodiscard]] const unsigned char* at(std::uint32_t taken) const noexcept;

  std::uint64_t first_sequence_ = 0;
  std::uint64_t lost_blocks_ = 0;
};

}  // namespace scalewatch::cuda
