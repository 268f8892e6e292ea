// What is stored of a run's gradients, as the domain's what-if wants it. Throws CallError.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/cli/client.h"
#include "server/cli/options.h"
#include "server/cli/screen.h"
#include "server/domain/whatif.h"
#include "server/domain/whatif_underflow.h"

namespace scalewatch::cli {

// A tensor's record, and its histogram if there is one, in unscaled magnitudes.
domain::Spread spread_of(const v1::TensorRecord& tensor);

// Numbers tensors in the order in which they come.
class TensorNumbers {
 public:
  std::size_t number(const v1::TensorInfo& info);
  [[nodiscard]] const std::vector<v1::TensorInfo>& infos() const { return infos_; }

 private:
  std::map<std::pair<std::string, int>, std::size_t> numbers_;
  std::vector<v1::TensorInfo> infos_;
};

struct Recorded {
  std::vector<domain::WhatIfAttempt> attempts;  // those with a scale
  std::vector<domain::Measured> measured;       // gradients; of every `stride`-th attempt, so that memory is bounded
  std::uint64_t stride = 1;
  std::uint64_t without_scale = 0;  // attempts that can't be replayed: no scale, or none above 0
  TensorNumbers tensors;
};

// The attempts of a range at which the scaler's scale is known.
Recorded read_recorded(Client& client, const std::string& run, const RangeOptions& range, std::uint32_t scaler,
                       const Screen& screen);

}  // namespace scalewatch::cli
