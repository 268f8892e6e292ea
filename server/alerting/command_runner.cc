#include "server/alerting/command_runner.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace scalewatch::alerting {

namespace {

// A file in memory that holds the text and stands at its beginning; -1 when that fails.
int file_of(const std::string& text) {
  const int file = memfd_create("scalewatch-alert", MFD_CLOEXEC);
  if (file < 0) return -1;
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(file, text.data() + at, text.size() - at);
    if (wrote < 0) {
      ::close(file);
      return -1;
    }
    at += static_cast<std::size_t>(wrote);
  }
  ::lseek(file, 0, SEEK_SET);
  return file;
}

// What the program gets of the server's environment: the rest may hold secrets of other sinks.
std::vector<char*> environment() {
  static constexpr std::array<std::string_view, 7> kPassed{"PATH=", "HOME=", "LANG=", "LC_", "TZ=", "USER=", "TMPDIR="};
  std::vector<char*> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (std::any_of(kPassed.begin(), kPassed.end(), [&](std::string_view start) { return text.starts_with(start); })) {
      out.push_back(*entry);
    }
  }
  out.push_back(nullptr);
  return out;
}

// The program's pid, or an errno below 0.
pid_t spawn(const std::vector<std::string>& command, int input) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The server's own masks and handlers are none of the program's.
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, command.front().c_str(), &files, &attributes, arguments.data(), environment().data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? pid : -error;
}

}  // namespace

CommandRunner::~CommandRunner() {
  for (const auto& [id, process] : running_) end(process);
}

void CommandRunner::end(const Process& process) {
  kill(-process.pid, SIGKILL);
  waitpid(process.pid, nullptr, 0);
  ::close(process.descriptor);
}

void CommandRunner::start(std::uint64_t id, const std::vector<std::string>& command, const std::string& input,
                          std::chrono::milliseconds timeout) {
  const auto fail = [&](const std::string& what, int error) {
    Done done;
    done.id = id;
    done.error = what + ": " + std::strerror(error);
    failed_.push_back(std::move(done));
  };
  const int file = file_of(input);
  if (file < 0) return fail("the command's input cannot be made", errno);
  const pid_t pid = spawn(command, file);
  ::close(file);
  if (pid < 0) return fail(command.front() + " cannot be started", -pid);
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) {
    const int error = errno;
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return fail(command.front() + " cannot be watched", error);
  }
  const auto now = Clock::now();
  running_[id] = {pid, descriptor, now, now + timeout};
}

std::vector<CommandRunner::Done> CommandRunner::collect() {
  std::vector<Done> out = std::exchange(failed_, {});
  const auto now = Clock::now();
  for (auto it = running_.begin(); it != running_.end();) {
    const Process& process = it->second;
    int status = 0;
    Done done;
    done.id = it->first;
    done.took = now - process.started;
    if (waitpid(process.pid, &status, WNOHANG) == process.pid) {
      ::close(process.descriptor);
      if (WIFEXITED(status)) {
        done.exit_status = WEXITSTATUS(status);
      } else {
        done.error = "the command was ended by signal " + std::to_string(WTERMSIG(status));
      }
    } else if (now >= process.deadline) {
      end(process);
      done.error = "the command ran longer than the sink's time-out and was killed";
    } else {
      ++it;
      continue;
    }
    out.push_back(std::move(done));
    it = running_.erase(it);
  }
  return out;
}

std::vector<int> CommandRunner::descriptors() const {
  std::vector<int> out;
  for (const auto& [id, process] : running_) out.push_back(process.descriptor);
  return out;
}

std::chrono::milliseconds CommandRunner::wait(std::chrono::milliseconds most) const {
  const auto now = Clock::now();
  for (const auto& [id, process] : running_) {
    most = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(process.deadline - now), std::chrono::milliseconds(0), most);
  }
  return most;
}

}  // namespace scalewatch::alerting
