// Room on the disk that is kept for alerts: a file, `ballast`, that is given up when the disk is full.
//
// Not thread-safe, but for what says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace scalewatch::history {

class Ballast {
 public:
  // Makes the file, or tells in the log why there is none. `bytes` 0: none, and none left.
  Ballast(std::filesystem::path file, std::uint64_t bytes);

  // Gives its room away. False when there was none to give, or the disk is not full.
  bool give();
  // That it was given, and is not back.
  [[nodiscard]] bool given() const { return given_; }
  // Bytes that are kept now. Any thread.
  [[nodiscard]] std::uint64_t kept() const { return there_ ? bytes_ : 0; }
  // Takes the room back once there is twice as much; false while there is not.
  bool take_back();

 private:
  bool make();
  [[nodiscard]] std::uint64_t room() const;  // free bytes on the disk

  const std::filesystem::path file_;
  const std::uint64_t bytes_;
  std::atomic<bool> there_{false};
  bool given_ = false;
};

}  // namespace scalewatch::history
