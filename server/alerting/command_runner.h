// Programs that run for the delivery thread, told apart by ids as requests are. Not thread-safe.
#pragma once

#include <sys/types.h>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace scalewatch::alerting {

class CommandRunner {
 public:
  struct Done {
    std::uint64_t id = 0;
    int exit_status = -1;  // -1: `error` says why there is none
    std::string error;
    std::chrono::duration<double> took{0};
  };

  CommandRunner() = default;
  ~CommandRunner();  // kills what runs
  CommandRunner(const CommandRunner&) = delete;
  CommandRunner& operator=(const CommandRunner&) = delete;

  // Starts the program with `input` as its standard input; its output is thrown away, and of the
  // server's environment it has PATH, HOME, LANG, LC_*, TZ, USER and TMPDIR. It runs in a process group of its own.
  void start(std::uint64_t id, const std::vector<std::string>& command, const std::string& input,
             std::chrono::milliseconds timeout);
  // Those that ended, and those that ran too long, which are killed.
  std::vector<Done> collect();
  // Readable when a program ended; for poll().
  [[nodiscard]] std::vector<int> descriptors() const;
  // How long until the next one has run too long; `most` when that is sooner.
  [[nodiscard]] std::chrono::milliseconds wait(std::chrono::milliseconds most) const;
  [[nodiscard]] std::size_t running() const { return running_.size() + failed_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Process {
    pid_t pid = 0;
    int descriptor = -1;  // pidfd
    Clock::time_point started;
    Clock::time_point deadline;
  };
  static void end(const Process& process);
  std::map<std::uint64_t, Process> running_;
  std::vector<Done> failed_;
};

}  // namespace scalewatch::alerting
