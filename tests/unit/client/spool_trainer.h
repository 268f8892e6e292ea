// A trainer whose reports are worth spooling: 50 tensors an attempt.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "scalewatch/scalewatch.hpp"

namespace scalewatch::client_test {

// Slow enough for the client's thread, so that nothing is lost in the queue.
inline void train_to_spool(Monitor& monitor, int attempts) {
  std::vector<std::uint32_t> tensors;
  tensors.reserve(50);
  for (int i = 0; i < 50; ++i) {
    tensors.push_back(monitor.add_tensor({"w" + std::to_string(i), SCALEWATCH_GRADIENT, SCALEWATCH_FP32, 4, 0, "", "", ""}));
  }
  const float data[4] = {1, 2, 3, 4};
  for (int i = 1; i <= attempts; ++i) {
    monitor.begin_attempt(i);
    for (const auto tensor : tensors) monitor.observe(tensor, data, 4);
    monitor.end_attempt();
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace scalewatch::client_test
