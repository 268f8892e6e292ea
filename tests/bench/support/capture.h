// What runs of the demo really sent, attempt by attempt, for a load that is as a training run's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "scalewatch/scalewatch.h"

namespace scalewatch::bench {

struct CapturedTensor {
  std::string name;
  scalewatch_role role = SCALEWATCH_GRADIENT;
  scalewatch_dtype dtype = SCALEWATCH_FP16;
  std::uint64_t numel = 0;
  std::uint32_t forward_index = 0;
};

struct CapturedRecord {
  scalewatch_record record;
  double scale = 1;  // that the values were multiplied by
};

struct CapturedRun {
  std::vector<CapturedTensor> tensors;
  std::vector<std::vector<CapturedRecord>> attempts;  // each in the order of tensors
};

// Trains so many demos of different seeds for so many attempts each, beside a server of their own, and asks it for all that
// they sent. What it keeps in `folder` is taken from there the next time. Some ten seconds a thousand attempts. Throws
// std::runtime_error.
std::vector<CapturedRun> capture_demo(const std::filesystem::path& folder, std::size_t runs, std::size_t attempts);

}  // namespace scalewatch::bench
