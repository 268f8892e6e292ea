#include "server/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/cli/text/units.h"

namespace scalewatch::cli {

namespace {

constexpr std::chrono::milliseconds kBlink{500};
constexpr std::chrono::milliseconds kRedraw{200};
constexpr int kBar = 24;

std::string repeated(std::string_view piece, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += piece;
  return out;
}

}  // namespace

Progress::Progress(std::string_view doing, std::string_view unit, std::uint64_t all, const Screen& screen)
    : doing_(doing), unit_(unit), all_(all), screen_(screen), next_(Clock::now() + kBlink) {}

Progress::~Progress() {
  if (shown_) *screen_.err << "\r\x1b[K" << std::flush;
}

void Progress::at(std::uint64_t done) {
  if (!screen_.err_terminal || screen_.err == nullptr || Clock::now() < next_) return;
  next_ = Clock::now() + kRedraw;
  shown_ = true;
  if (all_ == 0) {
    *screen_.err << fmt::format("\r{} {}\x1b[K", doing_, text::plural(done, unit_)) << std::flush;
    return;
  }
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(all_));
  const int full = static_cast<int>(share * kBar);
  *screen_.err << fmt::format("\r{} {}{} {:3.0f}%  {} of {}\x1b[K", doing_, repeated(screen_.ascii ? "#" : "█", full),
                              repeated(screen_.ascii ? "-" : "░", kBar - full), 100 * share, text::exact(done),
                              text::plural(all_, unit_))
               << std::flush;
}

}  // namespace scalewatch::cli
