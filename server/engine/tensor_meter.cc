#include "server/engine/tensor_meter.h"

#include <algorithm>
#include <cmath>

#include "cuda/record/format.h"
#include "server/domain/as_computed.h"

namespace scalewatch::engine {

namespace {

using domain::RecordColumns;
using domain::TensorInfo;

constexpr float kClearlyWorse = 2;  // an octave

std::size_t index_of(Role role) {
  return static_cast<std::size_t>(role);
}

// Optimizer state and buffers are computed in what they are stored in; the rest, in the target format.
DType format_of(const RecordColumns& block, const TensorInfo& tensor, DType compute_dtype) {
  if (block.role == Role::kOptimizerState || block.role == Role::kBuffer) return tensor.dtype;
  return block.target == DType::kUnspecified ? compute_dtype : block.target;
}

float absmax(const RecordColumns& block, std::uint32_t index, float mask, float own_mask) {
  const auto side = [&](float x) { return x == mask || x == own_mask ? 0.0F : x; };
  return std::max({side(-block.min[index]), side(block.max[index]), 0.0F});  // NaN: no finite element
}

// Positions of records with NaN or Inf, rising; -Inf in an activation is taken as a mask.
std::vector<std::uint32_t> bad_records(const RecordColumns& block) {
  std::vector<std::uint32_t> bad;
  const auto add = [&](const std::vector<domain::SparseCount>& list) {
    for (const domain::SparseCount& entry : list) {
      if (entry.count > 0) bad.push_back(entry.index);
    }
  };
  add(block.nan);
  add(block.pos_inf);
  if (block.role != Role::kActivation) add(block.neg_inf);
  std::sort(bad.begin(), bad.end());
  return bad;
}

}  // namespace

void TensorMeter::configure(DType compute_dtype, std::size_t tensors) {
  compute_dtype_ = compute_dtype;
  most_ = std::min<std::size_t>(tensors, 255);
}

std::shared_ptr<const RankReading> TensorMeter::take(std::span<const RecordColumns> blocks, const domain::AttemptDigest& digest,
                                                     std::int64_t steady_ms) {
  if (digest.retrospective || !digest.table) return nullptr;
  if (!digest.scalers.empty() && digest.scalers.front().scale_before) scale_ = *digest.scalers.front().scale_before;
  std::array<bool, kRoles> due{};
  for (const RecordColumns& block : blocks) {
    const std::size_t role = index_of(block.role);
    if (role == 0 || role >= kRoles || due.at(role) || steady_ms < next_ms_.at(role)) continue;
    due.at(role) = true;
    next_ms_.at(role) = steady_ms + kEveryMs;
  }
  if (std::none_of(due.begin(), due.end(), [](bool one) { return one; })) return nullptr;
  if (place_.size() < digest.table->size()) place_.resize(digest.table->size());
  std::array<RoleReading, kRoles> seen;
  for (const RecordColumns& block : blocks) {
    const std::size_t role = index_of(block.role);
    if (role < kRoles && due.at(role)) measure(block, *digest.table, seen.at(role));
  }
  // What has no finite element says nothing: the role stays as it was last measured.
  for (std::size_t role = 0; role < kRoles; ++role) {
    if (seen.at(role).headroom || seen.at(role).non_zero > 0) roles_.at(role) = seen.at(role);
  }
  auto out = std::make_shared<RankReading>();
  out->roles = roles_;
  for (const Kept& kept : kept_) {
    const TensorInfo& tensor = (*digest.table)[kept.id];
    out->tensors.push_back({tensor.name, tensor.role, -std::log2(static_cast<double>(kept.fill))});
  }
  return out;
}

void TensorMeter::measure(const RecordColumns& block, const domain::TensorTable& table, RoleReading& role) {
  const std::vector<std::uint32_t> bad = bad_records(block);
  auto next_bad = bad.begin();
  const bool gradient = block.role == Role::kGradient || block.role == Role::kActivationGradient;
  if (!kept_.empty()) find_least();
  float most_full = 0;
  std::size_t exponents = 0;
  DType dtype = DType::kUnspecified;
  FormatLimits limits;
  for (std::uint32_t i = 0; i < block.count; ++i) {
    const std::uint32_t id = block.ids.empty() ? block.first_id + i : block.ids[i];
    if (id >= table.size()) continue;
    const TensorInfo& tensor = table[id];
    if (const DType own = format_of(block, tensor, compute_dtype_); i == 0 || own != dtype) {
      dtype = own;
      limits = format_limits(dtype);
    }
    if (!domain::is_narrow(dtype)) continue;
    const auto max_finite = static_cast<float>(limits.max_finite);
    const float largest = absmax(block, i, max_finite, static_cast<float>(format_limits(tensor.dtype).max_finite));
    if (largest > 0) {
      most_full = std::max(most_full, largest / max_finite);
      keep(id, largest / max_finite);
    }
    // What is left beside NaN and Inf is no sample of the whole.
    next_bad = std::lower_bound(next_bad, bad.end(), i);
    if (next_bad != bad.end() && *next_bad == i) continue;
    const std::uint64_t numel = block.numel.empty() ? tensor.numel * block.micro_batches : block.numel[i];
    const std::uint64_t zero = block.zero.empty() ? 0 : std::min(block.zero[i], numel);
    while (exponents < block.exponents.size() && block.exponents[exponents].index < i) ++exponents;
    const bool here = exponents < block.exponents.size() && block.exponents[exponents].index == i;
    domain::AsComputed values{1, block.measured_under_scale == 1};
    if (gradient) {
      values = domain::gradient_as_computed(block.measured_under_scale, domain::is_fp8(dtype), tensor.dtype, scale_);
    }
    if (numel == zero || std::isnan(values.factor) || !(values.factor > 0)) continue;
    const auto non_zero = static_cast<double>(numel - zero);
    const double share = domain::subnormal_share(block, i, non_zero, values, limits.smallest_normal,
                                                 std::ilogb(limits.smallest_normal), here ? exponents : block.exponents.size());
    role.non_zero += non_zero;
    role.under += share * non_zero;
    role.worst_under = std::max(role.worst_under.value_or(0), share);
  }
  if (most_full > 0) {
    const double headroom = -std::log2(static_cast<double>(most_full));
    role.headroom = std::min(role.headroom.value_or(headroom), headroom);
  }
}

void TensorMeter::keep(std::uint32_t id, float fill) {
  if (place_[id] != 0) {
    kept_[place_[id] - 1U].fill = fill;
    return;
  }
  if (kept_.size() < most_) {
    kept_.push_back({id, fill});
    place_[id] = static_cast<std::uint8_t>(kept_.size());
    find_least();
    return;
  }
  if (kept_.empty() || fill <= kClearlyWorse * kept_[least_].fill) return;
  place_[kept_[least_].id] = 0;
  kept_[least_] = {id, fill};
  place_[id] = static_cast<std::uint8_t>(least_ + 1);
  find_least();
}

void TensorMeter::find_least() {
  const auto least = std::min_element(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.fill < b.fill; });
  least_ = static_cast<std::size_t>(least - kept_.begin());
}

}  // namespace scalewatch::engine
