// The trainer's side: checks what it is told and gathers one attempt. Used by one thread; takes no lock but in end().
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "client_lib/src/mailbox.h"
#include "client_lib/src/types.h"
#include "cuda/cpu/measure.h"

namespace scalewatch::client {

// A refused call: status is a scalewatch_status.
class Refused : public std::runtime_error {
 public:
  Refused(int status, const std::string& message) : std::runtime_error(message), status_(status) {}
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  int status_;
};

class Recorder {
 public:
  Recorder(Mailbox& mailbox, DType compute_dtype);

  // Every function throws Refused when it changed nothing because of what it was told.
  std::uint32_t add_tensor(TensorInfo info);
  void begin(std::int64_t step);
  void observe(std::uint32_t tensor, const void* data, std::uint64_t numel, double scale, std::int32_t target);
  // tensor.dtype is filled in from the table.
  void observe(std::uint32_t tensor, StridedTensor view, double scale, std::int32_t target);
  void observe(std::uint32_t tensor, const Record& record, double scale, std::int32_t target);
  ScalerObservation& scaler(std::uint32_t id, std::size_t scalers);
  Attempt& open_attempt();
  void misuse(Misuse misuse);
  void set_phase(std::int32_t phase);
  // True when the attempt was handed over, false when the client is stopped.
  bool end();

  [[nodiscard]] bool attempt_is_open() const noexcept { return open_; }
  // Any thread: reports made so far, and those made after the client was stopped.
  [[nodiscard]] std::uint64_t last_seq() const noexcept { return last_seq_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t dropped_stopped() const noexcept { return dropped_stopped_.load(std::memory_order_relaxed); }
  [[nodiscard]] Cost cost() const noexcept;

 private:
  struct Declared {
    Role role;
    DType dtype;
    std::uint64_t numel;
    std::uint64_t seen_seq = 0;  // attempt that slot belongs to
    std::uint32_t slot = 0;      // index in Attempt::measured
  };

  // The tensor's place in the open attempt, made if need be.
  Measured& place(std::uint32_t tensor, double scale, std::int32_t target);
  void add(Measured& into, const Record& record);
  template <class Measure>
  void observe_with(std::uint32_t tensor, double scale, std::int32_t target, const Measure& measure);

  Mailbox& mailbox_;
  const DType compute_dtype_;
  std::vector<Declared> tensors_;
  std::unordered_set<std::string> names_;  // name and role
  std::unique_ptr<Attempt> attempt_ = std::make_unique<Attempt>();
  std::vector<Misuse> misuse_;  // of the open attempt or the next one
  bool open_ = false;
  std::int32_t phase_ = 0;
  unsigned calls_ = 0;
  std::atomic<std::uint64_t> last_seq_{0};
  std::atomic<std::uint64_t> dropped_stopped_{0};
  std::atomic<std::uint64_t> trainer_thread_ns_{0};
  std::atomic<std::uint64_t> measure_ns_{0};
};

}  // namespace scalewatch::client
