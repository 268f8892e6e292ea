// One GPU as one monitor uses it: its primary context, the kernels in it, and whether it is still measured.
//
// Nothing throws. A device that can't be measured, or no longer, is quiet: it remembers why, and every call on it is a no-op.
// Two threads use it: the trainer's, which launches, and the client's, which asks for events; the functions say which.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/device/driver.h"

namespace scalewatch::cuda {

class Device {
 public:
  // Retains the primary context and loads the kernels; makes the context current nowhere. Trainer's thread.
  Device(const Driver& driver, int ordinal) noexcept;
  // Unloads and releases. Any thread; no other may use the device any more.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] bool quiet() const noexcept { return cause_.load(std::memory_order_relaxed) != Cause::kNone; }

  // Makes the context current on the trainer's thread while it lives, if it is not. False when the device is quiet.
  class Current {
   public:
    explicit Current(Device& device) noexcept;
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    [[nodiscard]] explicit operator bool() const noexcept { return ok_; }

   private:
    Device& device_;
    bool pushed_ = false;
    bool ok_ = false;
  };

  // Calls the driver on the trainer's thread and counts it. On an error of capturing the trainer's stream nothing more
  // happens: that capture is lost, and the trainer sees it himself. On any other the device goes quiet.
  template <class Call, class... Arguments>
  bool call(Call function, Arguments... arguments) noexcept {
    calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return check(function(arguments...));
  }
  // The same on the client's thread.
  template <class Call, class... Arguments>
  Status poll(Call function, Arguments... arguments) noexcept {
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return function(arguments...);
  }
  // False for an error, which makes the device quiet (see call).
  bool check(Status status) noexcept;
  void fail(Cause cause, Status status) noexcept;
  // Makes the context current on the client's thread, which polls others too.
  void enter_poll() noexcept;

  // Unloads and releases nothing at the end.
  void leave() noexcept { left_ = true; }

  [[nodiscard]] const Functions& driver() const noexcept { return functions_; }
  [[nodiscard]] Context context() const noexcept { return context_; }
  [[nodiscard]] std::uint32_t processors() const noexcept { return processors_; }
  [[nodiscard]] Function measure() const noexcept { return measure_; }
  [[nodiscard]] Function finish() const noexcept { return finish_; }
  [[nodiscard]] Function measure_one() const noexcept { return measure_one_; }
  [[nodiscard]] Function gather() const noexcept { return gather_; }
  [[nodiscard]] Function exponents() const noexcept { return exponents_; }

  // ---- any thread ----
  [[nodiscard]] Cause cause() const noexcept { return cause_.load(std::memory_order_acquire); }
  // What it is quiet for, for people: one line. Once cause() says so.
  void describe_fault(char* text, std::size_t size) const noexcept;
  // It is quiet because the process ends and the driver went first: nothing to be said.
  [[nodiscard]] bool process_ends() const noexcept { return cause() != Cause::kNone && status_ == kErrorDeinitialized; }
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t polls() const noexcept { return polls_.load(std::memory_order_relaxed); }

 private:
  void load() noexcept;

  const Driver& opened_;
  const Functions& functions_;
  const int ordinal_;
  DeviceOrdinal device_ = 0;
  Context context_ = nullptr;
  Module module_ = nullptr;
  Function measure_ = nullptr, finish_ = nullptr, measure_one_ = nullptr, gather_ = nullptr, exponents_ = nullptr;
  std::uint32_t processors_ = 1;
  bool left_ = false;
  int architecture_ = 0;  // 10 * major + minor
  std::atomic<Cause> cause_{Cause::kNone};
  std::atomic<bool> failing_{false};
  Status status_ = kSuccess;  // that made it quiet
  std::atomic<std::uint64_t> calls_{0}, polls_{0};
};

// While it lives, this thread may allocate although some stream is being captured, without harm to the capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(Device& device) noexcept : device_(device) {
    on_ = device_.call(device_.driver().exchange_capture_mode, &mode_);
  }
  ~RelaxedCapture() {
    if (on_) device_.call(device_.driver().exchange_capture_mode, &mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  Device& device_;
  int mode_ = kModeRelaxed;
  bool on_ = false;
};

}  // namespace scalewatch::cuda
