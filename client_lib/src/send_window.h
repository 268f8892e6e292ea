// How much may be on its way to the server, and not durable there, before full statistics thin out: without a bound while acks
// come in time, and else as much as the server makes durable in time. Whatever the reports wait for (the transport, the
// server's queues, its disk), a lean one that is sent then arrives soon, and with it what alerts need. In time is kLate more
// than the quickest ack of the stream took: a server that is far away is not behind.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace scalewatch::client {

// Of one stream. Not thread-safe.
class SendWindow {
 public:
  static constexpr std::chrono::milliseconds kLate{300};
  // More than this is no distance, and the first acks of a stream may be late already.
  static constexpr std::chrono::milliseconds kFarthest{400};
  // It never closes further: a disk that is slow and takes all that is sent costs a small stream nothing.
  static constexpr std::uint64_t kLeast = 64U << 10;

  // What is remembered of a report on its way.
  struct Sent {
    std::chrono::steady_clock::time_point at = {};
    std::uint64_t through = 0;  // bytes sent on this stream up to its end; 0 = not sent on it
    std::uint64_t before = 0;   // bytes that were on their way when it was sent
  };

  Sent send(std::uint64_t bytes, std::chrono::steady_clock::time_point now) {
    const std::uint64_t before = in_flight();
    sent_ += bytes;
    return {now, sent_, before};
  }

  // The server has made everything up to this report durable.
  void acked(const Sent& newest, std::chrono::steady_clock::time_point now) {
    if (newest.through <= acked_) return;
    acked_ = newest.through;
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(now - newest.at);
    quickest_ = std::min(quickest_, std::max(took, std::chrono::milliseconds(0)));
    const auto in_time = quickest_ + kLate;
    if (took <= in_time) {
      late_ = 0;
      if (room_ < kUnbounded / 2) room_ += room_ / 8;
    } else if (++late_ > 1) {  // a disk that hung once is no overload
      const auto enough =
          newest.before * static_cast<std::uint64_t>(in_time.count()) / static_cast<std::uint64_t>(took.count());
      room_ = std::clamp(enough, kLeast, std::max(room_, kLeast));
    }
  }

  [[nodiscard]] std::uint64_t in_flight() const { return sent_ - acked_; }
  [[nodiscard]] bool is_full() const { return in_flight() >= room_; }

 private:
  static constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};

  std::uint64_t sent_ = 0;
  std::uint64_t acked_ = 0;
  std::uint64_t room_ = kUnbounded;
  std::chrono::milliseconds quickest_ = kFarthest;
  int late_ = 0;  // acks in a row
};

}  // namespace scalewatch::client
