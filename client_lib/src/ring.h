// The records of the last attempts that were measured and not sent, for the moment when something fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

namespace scalewatch::client {

// Bounded in attempts and bytes; the oldest go first. Used by the client's thread.
class Ring {
 public:
  Ring(std::size_t max_attempts, std::uint64_t max_bytes) : max_attempts_(max_attempts), max_bytes_(max_bytes) {}

  [[nodiscard]] bool wanted() const { return max_attempts_ != 0; }
  // left_out: of ReportPacker::pack_left_out.
  void add(std::string left_out) {
    bytes_ += left_out.capacity();
    attempts_.push_back(std::move(left_out));
    while (!attempts_.empty() && (attempts_.size() > max_attempts_ || bytes_ > max_bytes_)) drop_oldest();
  }
  // All of it, oldest first; it is empty afterwards.
  [[nodiscard]] std::deque<std::string> take() {
    bytes_ = 0;
    return std::exchange(attempts_, {});
  }

 private:
  void drop_oldest() {
    bytes_ -= attempts_.front().capacity();
    attempts_.pop_front();
  }

  std::size_t max_attempts_;
  std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 0;
  std::deque<std::string> attempts_;
};

}  // namespace scalewatch::client
