#include "server/cli/views/log_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "server/cli/text/units.h"
#include "server/logimport/format.h"

namespace scalewatch::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kProgressAfter = std::chrono::milliseconds(500);
constexpr auto kProgressEvery = std::chrono::milliseconds(100);

// One line that is drawn over while a large file is read. Nothing when that takes no time.
class Progress {
 public:
  explicit Progress(std::ostream* out) : out_(out) {}
  ~Progress() {
    if (shown_) *out_ << "\r\x1b[K" << std::flush;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(std::uint64_t bytes, std::uint64_t total) {
    const auto now = Clock::now();
    if (out_ == nullptr || now < next_) return;
    next_ = now + kProgressEvery;
    shown_ = true;
    *out_ << "\r\x1b[K" << fmt::format("read {} MB", bytes / 1'000'000);
    if (total > 0) {
      constexpr std::uint64_t kCells = 30;
      const std::uint64_t done = std::min(bytes, total);
      const auto cells = static_cast<std::size_t>(kCells * done / total);
      *out_ << fmt::format(" of {} MB [{}{}] {}%", total / 1'000'000, std::string(cells, '#'), std::string(kCells - cells, '.'),
                           100 * done / total);
    }
    out_->flush();
  }

 private:
  std::ostream* out_;
  Clock::time_point next_ = Clock::now() + kProgressAfter;
  bool shown_ = false;
};

}  // namespace

std::string files_text(const std::vector<std::string>& files) {
  if (files.size() > 1) return fmt::format("{} files", files.size());
  return files.front() == "-" ? std::string("standard input") : Screen::name(files.front());
}

void throw_nothing(const std::vector<std::string>& files, const std::string& format, const logimport::ReadSummary& summary) {
  if (!format.empty()) {
    throw CallError(fmt::format("nothing in {} ({}) is of the format {}; without --format all formats are tried",
                                files_text(files), text::plural(summary.lines, "line"), format),
                    kExitNothing);
  }
  std::string message = fmt::format(
      "nothing in {} ({}) tells of a training run.\nLooked for skipped steps, loss scales, losses, gradient norms and "
      "learning rates, named as usual\n(\"step 10, loss: 2.31\") or in the words of {} formats:",
      files_text(files), text::plural(summary.lines, "line"), logimport::format_names().size());
  constexpr int kWidth = 76;
  for (const auto& line : text::wrap(fmt::format("{}", fmt::join(logimport::format_names(), ", ")), kWidth)) {
    message += "\n  " + line;
  }
  throw CallError(message, kExitNothing);
}

logimport::SourceReport read_files(const std::vector<std::string>& files, bool follow, const std::function<void()>& idle,
                                   std::ostream* progress, const std::stop_token& stop, logimport::LogDoctor& doctor) {
  std::atomic<bool> stopped = false;
  const std::stop_callback on_stop(stop, [&] { stopped = true; });
  Progress bar(follow ? nullptr : progress);
  logimport::SourceOptions source;
  source.follow = follow;
  source.stop = &stopped;
  source.progress = [&](std::uint64_t done, std::uint64_t total) { bar.at(done, total); };
  if (follow) {
    source.idle = [&] {
      doctor.pause();
      idle();
    };
  }
  try {
    auto report = logimport::read_logs(files, source, doctor.reader());
    doctor.finish();
    return report;
  } catch (const logimport::SourceError& error) {
    throw CallError(names::escape(error.what()), kExitNothing);
  }
}

}  // namespace scalewatch::cli
