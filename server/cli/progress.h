// How far a long piece of work is, on a terminal's standard error. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/cli/screen.h"

namespace scalewatch::cli {

// Shows itself only when the work takes longer than a blink, and only where lines can be written over; leaves no trace.
class Progress {
 public:
  // `doing` is a word for the work ("reading"), `unit` one for what is counted ("attempt"); 0 in all: nobody knows how many.
  // `screen` outlives it.
  Progress(std::string_view doing, std::string_view unit, std::uint64_t all, const Screen& screen);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of all are behind us. Cheap: draws five times a second at most.
  void at(std::uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  const std::string doing_;
  const std::string unit_;
  const std::uint64_t all_;
  const Screen& screen_;
  Clock::time_point next_;
  bool shown_ = false;
};

}  // namespace scalewatch::cli
