// The statistics of a record that can be drawn over attempts. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/text/plot.h"

namespace scalewatch::cli {

struct TensorStat {
  std::string_view label;  // with its unit
  std::function<text::Sample(const v1::Record&)> sample;
  text::Keep keep = text::Keep::kLargest;
  bool log2 = false;  // samples are base-2 logarithms
};

// "absmax", "headroom", "underflow", "norm", "nan", "inf".
const std::vector<std::string>& stat_choices();
// One of stat_choices(); anything else is taken for absmax.
const TensorStat& tensor_stat(const std::string& name);

}  // namespace scalewatch::cli
