#include "server/cli/views/tensor_stat.h"

#include <map>
#include <optional>

#include "server/cli/views/record_text.h"

namespace scalewatch::cli {

namespace {

// A count of 0 has no height, so that what is not 0 stands out.
text::Sample count_of(std::uint64_t count) {
  return count == 0 ? text::Sample{} : text::linear(static_cast<double>(count));
}

text::Sample log2_if(std::optional<double> value) {
  return value ? text::log2_of(value) : text::Sample{};
}

}  // namespace

const std::vector<std::string>& stat_choices() {
  static const std::vector<std::string> kWords{"absmax", "headroom", "underflow", "norm", "nan", "inf"};
  return kWords;
}

const TensorStat& tensor_stat(const std::string& name) {
  using R = v1::Record;
  static const std::map<std::string, TensorStat> kStats{
      {"absmax", {"absmax, unscaled, log2 axis", [](const R& r) { return log2_if(absmax(r)); }, text::Keep::kLargest, true}},
      {"headroom",
       {"headroom, octaves",
        [](const R& r) { return text::linear(r.has_headroom() ? std::optional<double>(r.headroom()) : std::nullopt); },
        text::Keep::kSmallest}},
      {"underflow", {"subnormal share of non-zero, unscaled", [](const R& r) { return text::linear(underflow(r)); }}},
      {"norm",
       {"norm, unscaled, log2 axis", [](const R& r) { return r.has_absmax() ? text::log2_of(norm(r)) : text::Sample{}; },
        text::Keep::kLargest, true}},
      {"nan", {"NaN elements", [](const R& r) { return count_of(r.nan()); }}},
      {"inf", {"infinite elements", [](const R& r) { return count_of(infinities(r)); }}},
  };
  const auto found = kStats.find(name);
  return found == kStats.end() ? kStats.at("absmax") : found->second;
}

}  // namespace scalewatch::cli
