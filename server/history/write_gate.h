// Who may use the one write connection: commits before compaction, compaction before retention. Thread-safe.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace scalewatch::history {

enum class WriteClass : std::uint8_t { kCommit = 0, kCompaction = 1, kRetention = 2 };

class WriteGate {
 public:
  // Waits until nobody writes and nobody of a class before this one waits.
  class Turn {
   public:
    Turn(WriteGate& gate, WriteClass which) : gate_(gate) {
      const auto own = static_cast<std::size_t>(which);
      std::unique_lock lock(gate_.mutex_);
      ++gate_.waiting_[own];
      gate_.changed_.wait(lock, [&] {
        bool first = !gate_.busy_;
        for (std::size_t i = 0; i < own; ++i) first = first && gate_.waiting_[i] == 0;
        return first;
      });
      --gate_.waiting_[own];
      gate_.busy_ = true;
    }
    ~Turn() {
      {
        std::lock_guard lock(gate_.mutex_);
        gate_.busy_ = false;
      }
      gate_.changed_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    WriteGate& gate_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::size_t, 3> waiting_{};
  bool busy_ = false;
};

}  // namespace scalewatch::history
