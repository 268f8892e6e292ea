// A trainer that only reports: 1,000 tensors an attempt, statistics given or measured.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/bench/client/ticks.h"

namespace scalewatch::bench {

class Trainer {
 public:
  static constexpr std::uint32_t kTensors = 1000;
  static constexpr std::uint64_t kNumel = 64;

  explicit Trainer(const std::string& server, const std::string& run = "bench");

  // One attempt with all its tensors, statistics given. Where times are asked for, each call's goes there.
  void attempt(Samples* observe = nullptr, Samples* end = nullptr);
  // The same, with a pass over 64 floats a tensor.
  void measured_attempt(Samples& observe);

  // One attempt with one tensor; returns what its observation took, in ticks.
  std::uint64_t first_observation();

  [[nodiscard]] Monitor& monitor() { return monitor_; }

 private:
  Monitor monitor_;
  std::uint32_t scaler_ = 0;
  std::vector<std::uint32_t> tensors_;
  std::vector<float> data_ = std::vector<float>(kNumel, 0.5F);
  scalewatch_record record_{};
  std::int64_t step_ = 0;
};

}  // namespace scalewatch::bench
