#include "server/domain/tensor_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cuda/record/format.h"
#include "server/domain/as_computed.h"
#include "server/domain/rank_state.h"

namespace scalewatch::domain {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// A rank that is no longer asked for full statistics keeps its windows as they were: after so many attempts they are told no
// more.
constexpr Attempt kForget = 2000;

}  // namespace

void TensorWatch::configure(RankFacts rank, const Thresholds& thresholds) {
  rank_ = std::move(rank);
  if (rank_.scalers.size() > RankFacts::kMaxGroups) rank_.scalers.resize(RankFacts::kMaxGroups);
  t_ = thresholds;
  groups_.resize(rank_.scalers.size() + 1);
  scales_.assign(groups_.size(), kNaN);
  scales_.back() = 1;
  seen_.resize(groups_.size());
}

void TensorWatch::know(const TensorTable& table) {
  if (facts_.size() >= table.size()) return;
  facts_ = describe(table, rank_);
  half_weights_.clear();
  for (std::uint32_t id = 0; id < facts_.size(); ++id) {
    const TensorFacts& facts = facts_[id];
    if (facts.dtype != DType::kFp16 || !facts.no_master || !facts.stepped || facts.group >= rank_.no_group()) continue;
    if (rank_.scalers[facts.group].policy == "pytorch") half_weights_.push_back(id);
  }
}

void TensorWatch::begin(const TensorTable& table, const AttemptDigest& digest) {
  know(table);
  if (tensors_.size() < table.size()) tensors_.resize(table.size());
  ++reports_;
  attempt_ = digest.attempt;
  step_ = digest.step;
  loss_bad_ = digest.loss && !std::isfinite(*digest.loss);
  lr_now_ = digest.lr.value_or(0);
  saw_parameters_ = false;
  gradients_bad_ = false;
  for (const ScalerObservation& scaler : digest.scalers) {
    if (scaler.scaler >= rank_.no_group()) continue;
    if (scaler.scale_before && std::isfinite(*scaler.scale_before) && *scaler.scale_before > 0) {
      scales_[scaler.scaler] = *scaler.scale_before;
    }
  }
  note_optimizers(digest);
  std::fill(seen_.begin(), seen_.end(), Seen{});
  zero_ids_.clear();
  unmasked_.clear();
  second_moments_.clear();
}

void TensorWatch::note_optimizers(const AttemptDigest& digest) {
  told_optimizers_ = scale_fell_ = false;
  stepping_ = applied_ = 0;
  for (const ScalerObservation& scaler : digest.scalers) {
    scale_fell_ = scale_fell_ || (scaler.scale_before && scaler.scale_after && *scaler.scale_after < *scaler.scale_before);
    for (const OptimizerObservation& optimizer : scaler.optimizers) {
      if (optimizer.optimizer >= TensorFacts::kAnyOptimizer) continue;
      told_optimizers_ = true;
      const std::uint64_t mask = std::uint64_t{1} << optimizer.optimizer;
      stepping_ |= mask;
      const bool by_found_inf = optimizer.outcome == Outcome::kUnknown && optimizer.found_inf_decided.value_or(1) == 0;
      if (optimizer.outcome == Outcome::kApplied || by_found_inf) applied_ |= mask;
    }
  }
}

bool TensorWatch::steps(std::uint8_t optimizer) const {
  return !told_optimizers_ || optimizer >= TensorFacts::kAnyOptimizer || ((stepping_ >> optimizer) & 1U) != 0;
}

bool TensorWatch::applied(std::uint8_t optimizer) const {
  if (!told_optimizers_) return !scale_fell_ && !gradients_bad_;
  if (optimizer >= TensorFacts::kAnyOptimizer) return applied_ == stepping_;
  return ((applied_ >> optimizer) & 1U) != 0;
}

void TensorWatch::begin_block(const RecordColumns& block) {
  block_ = Block();
  block_.columns = &block;
  block_.scale = block.measured_under_scale;
  DType target = block.target;
  if (target == DType::kUnspecified) target = rank_.compute_dtype;
  const FormatLimits limits = format_limits(target);
  block_.max_finite = static_cast<float>(limits.max_finite);
  block_.smallest_normal = limits.smallest_normal;
  block_.normal_exponent = limits.smallest_normal > 0 ? std::ilogb(limits.smallest_normal) : 0;
  block_.fp16 = target == DType::kFp16;
  block_.fp8 = is_fp8(target);
  block_.low_above = static_cast<float>(limits.max_finite * std::exp2(-t_.low_headroom_octaves));
  block_.wide_above = static_cast<float>(limits.max_finite * std::exp2(-t_.range_too_wide_octaves));
  saw_parameters_ = saw_parameters_ || block.role == Role::kParameter;
}

// Elements equal to the largest value of a format, here the target's or the tensor's own, are masks, not measurements.
float TensorWatch::absmax(std::uint32_t index, DType dtype) const {
  const auto own = static_cast<float>(format_limits(dtype).max_finite);
  const auto side = [&](float x) { return x == block_.max_finite || x == own ? 0.0F : x; };
  const float low = side(-block_.columns->min[index]);
  const float high = side(block_.columns->max[index]);
  return std::max({low, high, 0.0F});  // NaN: no finite element
}

void TensorWatch::take(std::uint32_t index, std::uint32_t id, NonFiniteTensor* bad) {
  const RecordColumns& columns = *block_.columns;
  const TensorFacts& facts = facts_[id];
  State& state = tensors_[id];
  bool over = false;
  if (block_.fp8) {
    auto& next = block_.next_over;
    while (next < columns.over.size() && columns.over[next].index < index) ++next;
    over = next < columns.over.size() && columns.over[next].index == index && columns.over[next].count > 0;
  }
  const bool activation = facts.role == Role::kActivation;
  if (activation && state.looks < t_.mask_samples) {
    state.early_neg_inf = state.early_neg_inf || (bad != nullptr && bad->neg_inf > 0);
  } else if (activation && bad != nullptr) {
    bad->neg_inf_is_new = bad->neg_inf > 0 && !state.early_neg_inf;
  }
  const bool fresh = state.looks == 0;
  if (bad != nullptr && (!activation || bad->nan + bad->pos_inf > 0)) {
    if (facts.role == Role::kGradient) ++seen_[facts.group].bad, gradients_bad_ = true;
    return;
  }
  Sample sample;
  sample.index = index;
  sample.id = id;
  sample.numel = columns.numel.empty() ? facts.numel * columns.micro_batches : columns.numel[index];
  if (sample.numel == 0) return;
  sample.zero = columns.zero.empty() ? 0 : std::min(columns.zero[index], sample.numel);
  auto& next = block_.next_exponents;
  while (next < columns.exponents.size() && columns.exponents[next].index < index) ++next;
  if (next < columns.exponents.size() && columns.exponents[next].index == index) sample.exponents = next;

  if (facts.role == Role::kGradient && !steps(facts.optimizer)) return;
  if (state.looks < 255 && ++state.looks == t_.mask_samples && activation && !state.early_neg_inf) unmasked_.push_back(id);
  if (fresh && facts.role == Role::kGradient) {
    ++groups_[facts.group].gradients;
    groups_[facts.group].elements += facts.numel;
  }
  if (block_.fp8) {
    const bool was = is_on(state, TensorRule::kFp8Saturation);
    const bool on = slide(state.bits[0], was, over, t_.fp8_saturation_samples, state.since[kNarrow]);
    judge(TensorRule::kFp8Saturation, id, on, over ? static_cast<double>(columns.over[block_.next_over].count) : 0);
  }
  switch (facts.role) {
    case Role::kGradient:
    case Role::kActivationGradient: {
      const AsComputed values = gradient_as_computed(block_.scale, block_.fp8, facts.dtype, scales_[facts.group]);
      sample.factor = values.factor;
      sample.exact = values.exact;
      sample.absmax = absmax(index, facts.dtype);
      if (facts.role == Role::kGradient) {
        take_gradient(sample, facts, state);
      } else if (block_.fp16) {
        take_range(sample, state, false);
      }
      break;
    }
    case Role::kActivation:
      if (!block_.fp16) break;
      sample.exact = block_.scale == 1;
      sample.absmax = absmax(index, facts.dtype);
      take_range(sample, state, true);
      break;
    case Role::kParameter:
      if (facts.no_master) take_parameter(sample, facts, state);
      break;
    case Role::kOptimizerState:
      if (facts.partner != TensorFacts::kNoPartner) second_moments_.push_back({id, sample.zero, sample.numel});
      break;
    case Role::kBuffer:
    case Role::kUnspecified:
      break;
  }
}

// Of the non-zero elements; under a loss scale and without a histogram, at least so many.
double TensorWatch::subnormal_share(const Sample& sample) const {
  return domain::subnormal_share(*block_.columns, sample.index, static_cast<double>(sample.numel - sample.zero),
                                 {sample.factor, sample.exact}, block_.smallest_normal, block_.normal_exponent,
                                 sample.exponents);
}

void TensorWatch::take_range(const Sample& sample, State& state, bool low_counts) {
  if (!(sample.absmax > 0) || std::isnan(sample.factor)) return;
  const float top = sample.absmax * sample.factor;
  if (low_counts) {
    const bool was = is_on(state, TensorRule::kLowHeadroom);
    const bool on = slide(state.bits[0], was, top > block_.low_above, t_.low_headroom_samples, state.since[kNarrow]);
    if (was || on) {
      judge(TensorRule::kLowHeadroom, sample.id, on,
            t_.low_headroom_octaves - std::log2(static_cast<double>(block_.max_finite) / static_cast<double>(top)));
    }
  }
  const bool was = is_on(state, TensorRule::kRangeTooWide);
  const double share = top > block_.wide_above ? subnormal_share(sample) : 0;
  const bool on = slide(state.bits[1], was, share > t_.range_too_wide_share, t_.range_too_wide_samples, state.since[kWide]);
  if (was || on) judge(TensorRule::kRangeTooWide, sample.id, on, share);
}

// The update of an Adam-like optimizer is about lr an element: less than half a unit in the last place of w is rounded away.
void TensorWatch::take_parameter(const Sample& sample, const TensorFacts& facts, State& state) {
  double lr = lr_now_;
  if (lr == 0 && facts.optimizer < rank_.optimizers.size()) lr = rank_.optimizers[facts.optimizer].lr.value_or(0);
  // A learning rate that still warms up is small by intent, and not for long.
  if (!(lr > 0) || (lr_now_ > 0 && lr_now_ > lr_)) return;
  const double limit = facts.dtype == DType::kFp16 ? t_.lost_updates_fp16 : t_.lost_updates_bf16;
  if (facts.dtype != DType::kFp16 && facts.dtype != DType::kBf16) return;
  const double mean_square = block_.columns->sum_sq[sample.index] / static_cast<double>(sample.numel);
  const bool lost = lr * lr < limit * limit * mean_square;
  const bool was = is_on(state, TensorRule::kLostUpdates);
  const bool on = run(state.streak[0], was, lost, t_.lost_updates_samples, t_.lost_updates_samples, state.since[kStreak]);
  if (was || on) judge(TensorRule::kLostUpdates, sample.id, on, std::log2(limit * std::sqrt(mean_square) / lr));
}

void TensorWatch::end(const TensorTable& table, AttemptDigest& digest) {
  if (saw_parameters_ && lr_now_ > 0) lr_ = lr_now_;
  compare_second_moments();
  end_gradients();
  digest.unmasked = unmasked_;
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    for (std::size_t rule = 0; rule < kTensorRules; ++rule) {
      const auto which = static_cast<TensorRule>(rule);
      const bool whole = (which == TensorRule::kGradientUnderflow && group.all_zero) ||
                         (which == TensorRule::kDominantGradient && group.dominates);
      const bool held = group.held[rule].tensors > 0 && attempt_ - group.held[rule].touched <= kForget;
      if (whole || held) digest.tensor_faults.push_back(told(which, i, table));
    }
  }
  tell_half_weights(table, digest);
}

// PyTorch itself raises for them only where it unscales one by one: fused optimizers and sharded scalers go on in silence.
void TensorWatch::tell_half_weights(const TensorTable& table, AttemptDigest& digest) const {
  static const std::string kKind = "fp16_parameters";
  const auto same = [](const MisuseObservation& event) { return event.kind == kKind; };
  if (half_weights_.empty() || std::any_of(digest.misuse.begin(), digest.misuse.end(), same)) return;
  std::string detail = table[half_weights_.front()].name;
  if (half_weights_.size() > 1) detail += fmt::format(" and {} more", half_weights_.size() - 1);
  digest.misuse.push_back({kKind, detail, false});
}

}  // namespace scalewatch::domain
