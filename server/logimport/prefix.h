// What launchers and loggers put before a message: when it was printed, by which process, and where the message begins.
#pragma once

#include "server/logimport/line.h"

namespace scalewatch::logimport {

// Fills body, time_ms and rank of a line from its text. Understands, in any order and number:
//   times   2023-04-28 06:51:29,903 · 2022/11/08 14:54:54 · 2020-08-01T12:39:16.5Z · Nov 29 12:39:16 · 28/04/2023 06:51:29 ·
//           12:39:16 at the start · seconds since 1970 at the start. The first full one anywhere in the line counts.
//   ranks   [rank0]: · [default0]: · [1,0]<stdout>: · 0: at the start (srun -l) · [pod/train-0/main] · train-worker-0 main ·
//           trainer-0 | (compose) · (7/8) · [Rank 0] · Rank 0 | · [rank: 0] · rank=0 · rank:0
//   the rest: level names, names of loggers, files and functions in brackets, separators.
// numbered: whether a number and a colon at the start are a rank (NumberedLines).
void parse_prefix(Line& line, bool numbered = true);

// Tells ranks at the start of lines ("3: ", as srun -l prints them) from steps ("1200: loss 0.5"): the numbers of ranks go up
// and down all the time, those of steps only up but for a restart.
class NumberedLines {
 public:
  void note(std::string_view text);
  bool are_ranks() const { return descents_ >= kFew && descents_ * kShare >= lines_; }

 private:
  static constexpr std::uint64_t kFew = 2;
  static constexpr std::uint64_t kShare = 20;

  std::uint64_t lines_ = 0;
  std::uint64_t descents_ = 0;
  std::uint32_t last_ = 0;
};

}  // namespace scalewatch::logimport
