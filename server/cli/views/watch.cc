// All runs, live. Redraws plainly; needs no terminal library.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "server/cli/json.h"
#include "server/cli/text/units.h"
#include "server/cli/views/runs_table.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMostRuns = 200;         // read at once; a terminal shows fewer
constexpr std::chrono::milliseconds kLook{200};  // how late a resize shows

struct Size {
  int columns = 80;
  int rows = 24;
  friend bool operator==(const Size&, const Size&) = default;
};

Size terminal_size(const Screen& screen) {
  winsize size{};
  Size out{screen.width, Size{}.rows};
  if (!screen.terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return out;
  if (size.ws_col > 0) out.columns = size.ws_col;  // some terminals know no size
  if (size.ws_row > 0) out.rows = size.ws_row;
  return out;
}

// The other screen of the terminal, without a cursor and without wrapping; the one before comes back when it goes.
class FullScreen {
 public:
  explicit FullScreen(const Screen& screen) : screen_(screen), active_(screen.terminal && !screen.json) {
    if (active_) screen_.out << "\x1b[?1049h\x1b[?25l\x1b[?7l" << std::flush;
  }
  ~FullScreen() {
    if (active_) screen_.out << "\x1b[?7h\x1b[?25h\x1b[?1049l" << std::flush;
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;
  [[nodiscard]] bool active() const { return active_; }

 private:
  const Screen& screen_;
  const bool active_;
};

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// What is known of the moment: an answer, or why there is none.
struct Picture {
  v1::ListRunsResponse runs;
  std::string failure;
  std::int64_t at_ms = 0;
};

std::vector<std::string> lines_of(const Picture& picture, const Screen& screen) {
  std::ostringstream out;
  Screen page{out, screen.width, screen.color, screen.ascii, false, picture.at_ms};
  page.time = screen.time;
  std::size_t bad = 0;
  for (const auto& run : picture.runs.runs()) bad += run.worst_open() >= v1::SEVERITY_WARNING ? 1 : 0;
  out << page.paint(fmt::format("scalewatch {:%H:%M:%S}Z", fmt::gmtime(static_cast<std::time_t>(picture.at_ms / 1000))),
                    text::Style::kBold)
      << fmt::format("  {}, {} with a warning or worse open; Ctrl-C ends\n",
                     text::plural(static_cast<std::uint64_t>(picture.runs.runs_size()), "run"), bad);
  if (!picture.failure.empty()) {
    for (const auto& line : text::wrap(picture.failure, screen.width)) out << page.paint(line, text::Style::kCritical) << '\n';
  }
  if (picture.runs.runs().empty() && picture.failure.empty()) out << "No run matches.\n";
  if (!picture.runs.runs().empty()) print_runs(picture.runs.runs(), false, page);
  std::vector<std::string> lines;
  std::istringstream split(out.str());
  for (std::string line; std::getline(split, line);) lines.push_back(std::move(line));
  return lines;
}

void draw(const Picture& picture, const Screen& screen, bool full, const Size& size) {
  auto lines = lines_of(picture, screen);
  if (!full) {
    for (const auto& line : lines) screen.out << line << '\n';
    screen.out << '\n' << std::flush;
    return;
  }
  const auto room = static_cast<std::size_t>(std::max(2, size.rows));
  if (lines.size() > room) {
    const auto hidden = lines.size() - (room - 1);
    lines.resize(room - 1);
    lines.push_back(fmt::format("{} below: --name or --min-severity shows fewer runs", text::plural(hidden, "more line")));
  }
  // Each line is written over and cleared to its end, then the rest of the screen: no flicker.
  screen.out << "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) screen.out << lines[i] << "\x1b[K" << (i + 1 < lines.size() ? "\n" : "");
  screen.out << "\x1b[J" << std::flush;
}

// True when `stop` was requested before `until`.
bool wait_until(const std::stop_token& stop, Clock::time_point until) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_until(lock, stop, until, [] { return false; });
  return stop.stop_requested();
}

}  // namespace

void watch_runs(Client& client, const WatchOptions& options, const Screen& screen, const std::stop_token& stop) {
  v1::ListRunsRequest request;
  request.set_page_size(static_cast<std::int32_t>(kMostRuns));
  request.set_name_contains(options.name);
  request.set_min_severity(parse_severity(options.min_severity));
  const auto look = [&] {
    auto answer = client.list_runs(request);
    sort_runs(*answer.mutable_runs());
    return answer;
  };
  Picture picture{look(), {}, screen.now_ms};  // a server that isn't there is an error, one that goes is not
  const FullScreen full(screen);
  const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.interval_s));
  for (std::uint32_t shown = 1;; ++shown) {
    auto size = terminal_size(screen);
    const auto redraw = [&] {
      Screen sized{screen.out, size.columns, screen.color, screen.ascii, screen.json, picture.at_ms};
      sized.time = screen.time;
      if (screen.json) {
        print_json_line(picture.runs, screen.out);
      } else {
        draw(picture, sized, full.active(), size);
      }
    };
    redraw();
    if (!screen.out || (options.count != 0 && shown >= options.count)) return;
    const auto next = Clock::now() + interval;
    while (Clock::now() < next) {
      if (wait_until(stop, std::min(next, Clock::now() + kLook))) return;
      if (!full.active()) continue;
      const auto now = terminal_size(screen);
      if (now == size) continue;
      size = now;
      redraw();
    }
    try {
      picture.runs = look();
      picture.failure.clear();
    } catch (const CallError& error) {
      if (stop.stop_requested()) return;
      picture.failure = error.what();  // the runs stay as they were last seen
    }
    picture.at_ms = unix_ms();
  }
}

}  // namespace scalewatch::cli
