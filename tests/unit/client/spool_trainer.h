// A trainer whose reports are worth spooling: 50 tensors an attempt.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "scalewatch/scalewatch.hpp"

namespace scalewatch::client_test {

// Until the client's thread has taken what waited in its queue; at most some seconds.
inline void let_catch_up(const Monitor& monitor, std::uint64_t& seen) {
  const auto taken = [&] {
    const auto now = monitor.stats();
    return now.buffered_bytes + now.spooled_bytes + now.reports_sent;
  };
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t before = taken();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (taken() != before || before == seen) continue;
    seen = before;
    return;
  }
}

// Slow enough for that thread, so that nothing is lost in the queue.
inline void train_to_spool(Monitor& monitor, int attempts) {
  std::vector<std::uint32_t> tensors;
  tensors.reserve(50);
  for (int i = 0; i < 50; ++i) {
    tensors.push_back(monitor.add_tensor({"w" + std::to_string(i), SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 4, 0, "", "", ""}));
  }
  const float data[4] = {1, 2, 3, 4};
  std::uint64_t seen = 0;
  for (int i = 1; i <= attempts; ++i) {
    monitor.begin_attempt(i);
    for (const auto tensor : tensors) monitor.observe(tensor, data, 4);
    monitor.end_attempt();
    if (i % 10 == 0) let_catch_up(monitor, seen);
  }
}

}  // namespace scalewatch::client_test
