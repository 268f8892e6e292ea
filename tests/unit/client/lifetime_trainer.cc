// A trainer that ends in the way that it is told to: lifetime_trainer WAY SERVER [SERVER2]. lifetime_test.cc knows what must
// come of each. It prints what it has to say and exits with 0 where the way lets it.
#include <dirent.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/client/lifetime_trainer.h"

namespace scalewatch::client_test {

Servers& servers() {
  static Servers made;
  return made;
}

Monitor*& left_open() {
  static Monitor* monitor = nullptr;
  return monitor;
}

MonitorOptions options(const std::string& run, const std::string& at) {
  MonitorOptions made;
  made.run = run;
  made.server = at;
  return made;
}

void attempts(Monitor& monitor, int count) {
  for (int i = 0; i < count; ++i) {
    monitor.begin_attempt(i);
    monitor.set_loss(1.0);
    monitor.end_attempt();
  }
}

void say(const char* text) {
  std::printf("%s\n", text);
  std::fflush(stdout);
}

Monitor& start() {
  left_open() = new Monitor(options());
  attempts(*left_open(), 1);
  if (!left_open()->wait_durable(kLongMs)) std::_Exit(99);
  attempts(*left_open(), 4);
  return *left_open();
}

namespace {

std::vector<Monitor*> many_left_open;

int entries(const char* path) {
  int count = 0;
  if (DIR* dir = opendir(path); dir != nullptr) {
    while (readdir(dir) != nullptr) ++count;
    closedir(dir);
  }
  return count;
}

// Opened and closed 50 times: what the first ten took may be kept, but no more.
int again_and_again() {
  int threads = 0;
  int files = 0;
  for (int i = 0; i < 50; ++i) {
    Monitor monitor(options());
    attempts(monitor, 1);
    if (!monitor.close(kLongMs)) return 1;
    if (i == 10) threads = entries("/proc/self/task");
    if (i == 10) files = entries("/proc/self/fd");
  }
  std::printf("threads %d to %d, files %d to %d\n", threads, entries("/proc/self/task"), files, entries("/proc/self/fd"));
  // gRPC's own pool breathes by a few threads; a leak would be forty.
  return entries("/proc/self/task") <= threads + 8 && entries("/proc/self/fd") <= files + 8 ? 0 : 2;
}

int two_at_once() {
  Monitor first(options("first"));
  Monitor second(options("second", servers().second));
  for (int i = 0; i < 10; ++i) {
    first.begin_attempt(i);
    second.begin_attempt(i);
    first.set_loss(1);
    second.set_loss(2);
    second.end_attempt();
    first.end_attempt();
  }
  const bool closed = first.close(kLongMs);
  attempts(second, 1);  // the other lives on
  return second.close(kLongMs) && closed ? 0 : 1;
}

int open_from_threads() {
  std::vector<std::thread> threads;
  std::vector<int> closed(8, 0);
  threads.reserve(closed.size());
  for (std::size_t i = 0; i < closed.size(); ++i) {
    threads.emplace_back([i, &closed] {
      Monitor monitor(options("thread" + std::to_string(i)));
      attempts(monitor, 3);
      closed[i] = monitor.close(kLongMs) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::count(closed.begin(), closed.end(), 1) == 8 ? 0 : 1;
}

Monitor& static_monitor() {
  static Monitor monitor(options());
  return monitor;
}

Monitor& thread_monitor() {
  thread_local Monitor monitor(options());
  return monitor;
}

// Closes from a destructor that runs at exit.
struct ClosesAtExit {
  std::optional<Monitor> monitor;
  ~ClosesAtExit() {
    if (monitor) say(monitor->close(kLongMs) ? "closed at exit" : "not closed at exit");
  }
} closes_at_exit;

int at_exit() {
  closes_at_exit.monitor.emplace(options());
  attempts(*closes_at_exit.monitor, 3);
  return 0;
}

// Close with a server that was there and answers no more, when its tester says so on standard input.
int close_when_told() {
  Monitor monitor(options());
  attempts(monitor, 1);
  if (!monitor.wait_durable(kLongMs)) return 1;
  say("durable");
  if (std::getchar() == EOF) return 2;
  attempts(monitor, 3);
  say(monitor.close(1000) ? "closed" : "timed out");
  return 0;
}

// Nobody answers any of 40 monitors.
int exit_unheard() {
  for (int i = 0; i < 40; ++i) {
    auto* monitor = new Monitor(options());  // never destroyed: closed by the library at exit
    many_left_open.push_back(monitor);
    attempts(*monitor, 1);
  }
  return 0;
}

// A signal's handler exits from wherever the trainer is just then, mostly inside the library.
int exit_in_an_attempt() {
  Monitor& monitor = start();
  attempts(monitor, 1000);
  if (!monitor.wait_durable(kLongMs)) return 1;
  std::signal(SIGALRM, [](int) { std::exit(0); });
  itimerval timer{};
  timer.it_value.tv_usec = 2000 + getpid() % 1000;
  setitimer(ITIMER_REAL, &timer, nullptr);
  for (;;) attempts(monitor, 1);
}

// The same while the trainer waits in close for a server that does not answer.
int exit_while_closing() {
  Monitor& monitor = *(left_open() = new Monitor(options()));
  attempts(monitor, 3);
  std::signal(SIGALRM, [](int) { std::exit(0); });
  itimerval timer{};
  timer.it_value.tv_usec = 100'000;
  setitimer(ITIMER_REAL, &timer, nullptr);
  return monitor.close(kLongMs) ? 1 : 2;
}

[[noreturn]] void terminate_by(int signal) {
  raise(signal);
  std::abort();
}

}  // namespace
}  // namespace scalewatch::client_test

// A leak checker does not see what the threads hold that a forked child does not have.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier): the sanitizers' names
  return "detect_leaks=0";
}
// Handlers that exit are what some trainers do, and what is tested here.
extern "C" const char* __tsan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "report_signal_unsafe=0";
}

int main(int argc, char** argv) {
  using namespace scalewatch::client_test;  // NOLINT(google-build-using-namespace): it is this program's own
  if (argc < 3) return 98;
  servers() = {argv[2], argc > 3 ? argv[3] : ""};
  const std::map<std::string, std::function<int()>> ways{
      {"return", [] { return start(), 0; }},
      {"exit unheard", exit_unheard},
      {"exit in an attempt", exit_in_an_attempt},
      {"exit while closing", exit_while_closing},
      {"exit", [] { return start(), std::exit(0), 0; }},
      {"_exit", [] { return start(), _exit(0), 0; }},
      {"quick_exit", [] { return start(), std::quick_exit(0), 0; }},
      {"abort", [] { return start(), std::abort(), 0; }},
      {"throw", [] { return start(), throw std::runtime_error("nobody catches this"), 0; }},
      {"SIGTERM", [] { return start(), terminate_by(SIGTERM), 0; }},
      {"SIGTERM handled", [] { return start(), std::signal(SIGTERM, [](int) { std::exit(0); }), terminate_by(SIGTERM), 0; }},
      {"exit from a thread", [] { return start(), std::thread([] { std::exit(0); }).join(), 0; }},
      {"static", [] { return attempts(static_monitor(), 3), 0; }},
      {"thread_local", [] { return attempts(thread_monitor(), 3), 0; }},
      {"thread_local of a thread", [] { return std::thread([] { attempts(thread_monitor(), 3); }).join(), 0; }},
      {"closed from a destructor at exit", at_exit},
      {"in an attempt", [] { return start().begin_attempt(9), 0; }},
      {"fork", fork_workers},
      {"open in child", open_in_child},
      {"outlived exit", [] { return outlived([] { std::exit(0); }); }},
      {"outlived kill", [] { return outlived([] { terminate_by(SIGKILL); }); }},
      {"outlived close", [] { return outlived([] { left_open()->close(kLongMs); }); }},
      {"again and again", again_and_again},
      {"two at once", two_at_once},
      {"open from threads", open_from_threads},
      {"close when told", close_when_told},
  };
  const auto way = ways.find(argv[1]);
  return way == ways.end() ? 97 : way->second();
}
