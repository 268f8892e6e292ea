// What the ways of lifetime_trainer share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "scalewatch/scalewatch.hpp"

namespace scalewatch::client_test {

constexpr std::int64_t kLongMs = 20'000;

// What the command line said.
struct Servers {
  std::string first;
  std::string second;
};
Servers& servers();

// A monitor that a way leaves open, where a leak checker reaches it.
Monitor*& left_open();

MonitorOptions options(const std::string& run = "lifetime", const std::string& at = servers().first);
void attempts(Monitor& monitor, int count);
void say(const char* text);
// Opened, connected, one report durable and four more on their way; left_open().
Monitor& start();

// ---- lifetime_workers.cc; each returns the trainer's exit status ----
// Workers begin before, in and between attempts; the parent goes on.
int fork_workers();
// The library was loaded and not used: each child may have a monitor of its own.
int open_in_child();
// The trainer ends first, by the given way; the worker waits for that and then uses what it inherited.
int outlived(const std::function<void()>& end_trainer);

}  // namespace scalewatch::client_test
