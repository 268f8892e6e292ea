#include "server/domain/rank_state.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "cuda/record/format.h"
#include "server/domain/archive.h"
#include "server/domain/attempt.h"

namespace scalewatch::domain {
namespace {

constexpr std::uint32_t kMagic = 0x53525753;  // "SWRS"
constexpr std::uint32_t kVersion = 2;         // 2: windows of the rules over tensors

// A fall is told from noise by a slow average over about this many samples ...
constexpr float kSlow = 1.0F / 16;
// ... of which there are a few, ...
constexpr std::uint32_t kMinSamples = 8;
// ... and by being more than an octave.
constexpr float kMinFall = 1.0F;

// Bits of a float such that equal values hash equal: one zero, one NaN.
std::uint64_t canonical(float x) {
  if (std::isnan(x)) return 0x7fc00000U;
  return std::bit_cast<std::uint32_t>(x + 0.0F);
}
std::uint64_t canonical(double x) {
  if (std::isnan(x)) return 0x7ff8000000000000U;
  return std::bit_cast<std::uint64_t>(x + 0.0);
}
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29U);
}

struct Bad {
  std::uint32_t index = 0;  // in its block
  NonFiniteTensor tensor;
};

// What all gradients of a report come to.
class GradientSum {
 public:
  void block(double scale) {
    mixed_ = mixed_ || (blocks_ > 0 && scale != scale_);
    scale_ = scale;
    ++blocks_;
  }
  void record(float low, float high, double sum_sq, bool bad) {
    ++records_;
    bad_ = bad_ || bad;
    zero_ = zero_ && low == 0 && high == 0 && !bad;
    sum_sq_ += sum_sq;
  }
  void tell(AttemptDigest& digest) const {
    digest.gradient_norm.reset();
    digest.gradient_scale = scale_;
    digest.gradients_zero = records_ > 0 && zero_;
    if (records_ > 0 && !bad_ && !mixed_ && std::isfinite(sum_sq_)) digest.gradient_norm = std::sqrt(sum_sq_);
  }

 private:
  double scale_ = 1;
  double sum_sq_ = 0;
  std::uint64_t records_ = 0;
  std::uint32_t blocks_ = 0;
  bool mixed_ = false;  // measured under several scales
  bool bad_ = false;
  bool zero_ = true;
};

// The records of a block with NaN or Inf. Sparse lists are short or empty on healthy reports.
std::vector<Bad> bad_of(const RecordColumns& block) {
  std::vector<Bad> all;
  const auto add = [&](const std::vector<SparseCount>& list, std::uint64_t NonFiniteTensor::*field) {
    for (const SparseCount& entry : list) {
      if (entry.index >= block.count || entry.count == 0) continue;
      Bad bad;
      bad.index = entry.index;
      bad.tensor.*field = entry.count;
      all.push_back(bad);
    }
  };
  add(block.nan, &NonFiniteTensor::nan);
  add(block.pos_inf, &NonFiniteTensor::pos_inf);
  add(block.neg_inf, &NonFiniteTensor::neg_inf);
  std::stable_sort(all.begin(), all.end(), [](const Bad& a, const Bad& b) { return a.index < b.index; });
  std::vector<Bad> merged;
  for (const Bad& bad : all) {
    if (merged.empty() || merged.back().index != bad.index) {
      merged.push_back(bad);
      continue;
    }
    merged.back().tensor.nan += bad.tensor.nan;
    merged.back().tensor.pos_inf += bad.tensor.pos_inf;
    merged.back().tensor.neg_inf += bad.tensor.neg_inf;
  }
  for (const SparseCount& first : block.first_bad_micro) {
    const auto at = std::lower_bound(merged.begin(), merged.end(), first.index,
                                     [](const Bad& bad, std::uint32_t index) { return bad.index < index; });
    if (at != merged.end() && at->index == first.index) {
      at->tensor.first_bad_micro = static_cast<std::uint32_t>(std::min<std::uint64_t>(first.count, UINT32_MAX));
    }
  }
  return merged;
}

enum Stage : std::uint8_t { kState, kForward, kBackward, kStages };

Stage stage_of(Role role) {
  if (is_state(role)) return kState;
  return role == Role::kActivation ? kForward : kBackward;
}

// Keeps the first tensors of every stage, so that a thousand poisoned weights don't hide where the gradients began.
void select(std::array<std::vector<NonFiniteTensor>, kStages>& stages, const TensorTable& table, AttemptDigest& digest) {
  std::array<std::size_t, kStages> take{};
  std::size_t left = RankState::kMaxNonFinite;
  std::size_t open = kStages;
  // Even shares; what a stage doesn't need goes to the others.
  while (left > 0 && open > 0) {
    const std::size_t share = std::max<std::size_t>(1, left / open);
    open = 0;
    for (std::size_t stage = 0; stage < kStages; ++stage) {
      const std::size_t more = std::min({share, stages[stage].size() - take[stage], left});
      take[stage] += more;
      left -= more;
      if (take[stage] < stages[stage].size()) ++open;
    }
  }
  const auto before = [&](const NonFiniteTensor& a, const NonFiniteTensor& b) {
    const TensorInfo& x = table[a.id];
    const TensorInfo& y = table[b.id];
    if (flows_before(x.role, x.forward_index, y.role, y.forward_index)) return true;
    if (flows_before(y.role, y.forward_index, x.role, x.forward_index)) return false;
    return a.id < b.id;
  };
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    auto& tensors = stages[stage];
    const auto end = tensors.begin() + static_cast<std::ptrdiff_t>(take[stage]);
    std::partial_sort(tensors.begin(), end, tensors.end(), before);
    digest.non_finite.insert(digest.non_finite.end(), tensors.begin(), end);
  }
}

}  // namespace

void RankState::configure(const RankJoined& rank, const Thresholds& thresholds) {
  watch_.configure({rank.compute_dtype, rank.scalers, rank.optimizers}, thresholds);
}

void RankState::fold(std::span<const RecordColumns> blocks, AttemptDigest& digest) {
  digest.non_finite.clear();
  digest.non_finite_total = 0;
  digest.recovered.clear();
  digest.replicas.clear();
  digest.falling.reset();
  digest.unmasked.clear();
  GradientSum gradients;
  if (!digest.table) return;
  const TensorTable& table = *digest.table;
  if (!digest.retrospective && tensors_.size() < table.size()) tensors_.resize(table.size());
  digest.tensor_faults.clear();
  if (digest.retrospective) {
    watch_.know(table);
  } else {
    watch_.begin(table, digest);
  }

  std::array<std::vector<NonFiniteTensor>, kStages> stages;
  float largest_fall = kMinFall;
  for (const RecordColumns& block : blocks) {
    digest.observed_gradients |= block.role == Role::kGradient;
    digest.observed_activations |= block.role == Role::kActivation;
    digest.observed_activation_gradients |= block.role == Role::kActivationGradient;
    digest.observed_parameters |= is_state(block.role);
    const auto limit = static_cast<float>(format_limits(block.target).max_finite);
    const float top = limit > 0 ? octaves(limit) : std::numeric_limits<float>::quiet_NaN();
    const bool state = is_state(block.role);
    const bool gradient = block.role == Role::kGradient;
    if (gradient) gradients.block(block.measured_under_scale);
    const bool fingerprint = block.role == Role::kParameter;
    std::vector<Bad> bad = bad_of(block);
    if (!digest.retrospective) watch_.begin_block(block);
    auto next_bad = bad.begin();
    for (std::uint32_t i = 0; i < block.count; ++i) {
      const std::uint32_t id = block.ids.empty() ? block.first_id + i : block.ids[i];
      if (id >= table.size()) continue;
      const bool is_bad = next_bad != bad.end() && next_bad->index == i;
      if (!digest.retrospective) watch_.take(i, id, is_bad ? &next_bad->tensor : nullptr);
      if (is_bad) {
        NonFiniteTensor tensor = next_bad++->tensor;
        tensor.id = id;
        ++digest.non_finite_total;
        stages[stage_of(watch_.facts(id).role)].push_back(tensor);
      }
      const float low = block.min[i];
      const float high = block.max[i];
      if (gradient) gradients.record(low, high, block.sum_sq[i], is_bad);
      if (fingerprint && watch_.facts(id).replicated) {
        std::uint64_t hash = mix(canonical(low), canonical(high));
        hash = mix(hash, canonical(block.sum[i]));
        hash = mix(hash, canonical(block.sum_sq[i]));
        hash = mix(hash, canonical(block.absmin_nonzero[i]));
        hash = mix(hash, block.zero.empty() ? 0 : block.zero[i]);
        if (is_bad) {
          hash = mix(hash, std::prev(next_bad)->tensor.nan);
          hash = mix(hash, std::prev(next_bad)->tensor.pos_inf);
          hash = mix(hash, std::prev(next_bad)->tensor.neg_inf);
        }
        digest.replicas.push_back({id, hash});
      }
      if (digest.retrospective) continue;
      TensorState& tensor = tensors_[id];
      // How far it had fallen before this attempt, whose own values may be what is left beside NaN and Inf. Of what flows only:
      // weights and optimizer state grow because it did.
      const float fall = tensor.headroom_slow - tensor.headroom;
      if (!state && tensor.samples >= kMinSamples && fall > largest_fall) {
        largest_fall = fall;
        digest.falling = FallingTensor{id, fall};
      }
      if (state && tensor.told_non_finite && !is_bad && digest.recovered.size() < kMaxNonFinite) {
        tensor.told_non_finite = false;
        digest.recovered.push_back(id);
      }
      // Headroom of the values as stored: a gradient's, under its scale, is what overflows. A change of the scale moves all
      // gradients alike, so that the one which fell fastest is still the right one.
      const float absmax = std::max(-low, high);
      if (is_bad || !(absmax > 0) || std::isnan(top)) continue;
      tensor.headroom = top - octaves(absmax);
      if (tensor.samples < UINT32_MAX) ++tensor.samples;
      // A plain mean at first, or chance in the very first sample would count for most of it.
      tensor.headroom_slow +=
          (tensor.headroom - tensor.headroom_slow) * std::max(kSlow, 1.0F / static_cast<float>(tensor.samples));
    }
  }
  gradients.tell(digest);
  if (!digest.retrospective) watch_.end(table, digest);
  if (digest.non_finite_total == 0) return;
  select(stages, table, digest);
  if (digest.retrospective) return;
  for (const NonFiniteTensor& tensor : digest.non_finite) {
    if (is_state(table[tensor.id].role)) tensors_[tensor.id].told_non_finite = true;
  }
}

std::string RankState::save() const {
  Writer writer(kMagic, kVersion);
  std::size_t count = tensors_.size();
  writer(count);
  for (const TensorState& tensor : tensors_)
    writer(tensor.headroom, tensor.headroom_slow, tensor.samples, tensor.told_non_finite);
  watch_.persist(writer);
  return std::move(writer).finish();
}

void RankState::load(std::string_view bytes) {
  Reader reader(bytes, kMagic, kVersion);
  std::vector<TensorState> tensors(reader.size_prefix(0));
  for (TensorState& tensor : tensors) reader(tensor.headroom, tensor.headroom_slow, tensor.samples, tensor.told_non_finite);
  TensorWatch watch = watch_;
  watch.persist(reader);
  reader.finish();
  tensors_ = std::move(tensors);
  watch_ = std::move(watch);
}

}  // namespace scalewatch::domain
