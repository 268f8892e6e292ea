// Gradients, and the second moments that are compared with them.
#include <algorithm>
#include <cmath>

#include "server/domain/rank_state.h"
#include "server/domain/tensor_watch.h"

namespace scalewatch::domain {
namespace {

// Share of zeros: the plain mean of the first samples, then a mean over about so many.
constexpr float kBaseRate = 1.0F / 256;
// The least headroom of a group is forgotten at this pace, octaves a report: not each report holds every gradient.
constexpr float kLimitingLeak = 0.05F;
// Of the gradients that a group is known to have: so many must be in a report that speaks for all.
constexpr double kNearlyAll = 0.9;
constexpr double kMost = 0.5;
constexpr std::uint32_t kMinDominated = 3;  // gradients: one of two holds most of the norm as a matter of course

}  // namespace

void TensorWatch::take_gradient(const Sample& sample, const TensorFacts& facts, State& state) {
  const RecordColumns& columns = *block_.columns;
  Seen& seen = seen_[facts.group];
  ++seen.records;
  if (sample.numel == facts.numel) {  // not of several micro-batches
    state.zeros = sample.zero;
    state.stamp = reports_;
  }
  const double sum_sq = columns.sum_sq[sample.index] / (block_.scale * block_.scale);
  seen.sum_sq += sum_sq;
  if (sum_sq > seen.largest) seen.largest = sum_sq, seen.largest_id = sample.id;
  const bool all_zero = !(sample.absmax > 0);
  const float top = sample.absmax * sample.factor;
  if (all_zero) {
    if (facts.stepped) zero_ids_.push_back(sample.id);
  } else {
    ++seen.non_zero;
    if (state.streak[1] != 0 || is_on(state, TensorRule::kAllZeroGradient)) {
      const bool on = run(state.streak[1], is_on(state, TensorRule::kAllZeroGradient), false, t_.all_zero_gradient_samples, 1,
                          state.since[kZeroStreak]);
      judge(TensorRule::kAllZeroGradient, sample.id, on, static_cast<double>(facts.numel));
    }
    if (block_.max_finite > 0 && top > 0) {
      const float headroom = octaves(block_.max_finite) - octaves(top);
      if (seen.limiting == kNone || headroom < seen.headroom) seen.headroom = headroom, seen.limiting = sample.id;
    }
  }
  if (block_.fp16) take_range(sample, state, facts.static_scale);
  if ((!block_.fp16 && !block_.fp8) || std::isnan(sample.factor)) return;

  // Flushed elements are as good as zero; they are counted as computed only where the record is exact.
  const std::uint64_t flushed = sample.exact && !columns.flushed.empty() ? columns.flushed[sample.index] : 0;
  const auto numel = static_cast<float>(sample.numel);
  const float zeros = std::min(1.0F, static_cast<float>(sample.zero + flushed) / numel);
  const bool based = state.looks > t_.underflow_samples;
  const float rise = based && state.zero_base < 1 ? (zeros - state.zero_base) / (1 - state.zero_base) : 0;
  // From well within the range to nothing at all in one step: unused, not underflown.
  const bool unused = all_zero && static_cast<double>(state.top) >= block_.smallest_normal;
  const double subnormal = all_zero ? 0 : subnormal_share(sample);
  const bool risen = static_cast<double>(rise) > t_.underflow_zero_rise && !unused;
  const bool was = is_on(state, TensorRule::kGradientUnderflow);
  const bool on = run(state.streak[0], was, risen || subnormal > t_.underflow_subnormal_share, t_.underflow_samples,
                      t_.underflow_samples, state.since[kStreak]);
  if (was || on) judge(TensorRule::kGradientUnderflow, sample.id, on, std::max(static_cast<double>(rise), subnormal));
  if (!based) {
    state.zero_base += (zeros - state.zero_base) / static_cast<float>(state.looks);
  } else if (static_cast<double>(rise) <= t_.underflow_zero_rise) {
    state.zero_base += (zeros - state.zero_base) * kBaseRate;
  }
  if (!all_zero) state.top = top;
}

void TensorWatch::compare_second_moments() {
  for (const SecondMoment& moment : second_moments_) {
    const TensorFacts& facts = facts_[moment.id];
    const State& gradient = tensors_[facts.partner];
    const std::uint64_t numel = facts_[facts.partner].numel;
    if (gradient.stamp != reports_ || numel != moment.numel || !applied(facts.optimizer)) continue;
    State& state = tensors_[moment.id];
    const auto non_zero = static_cast<double>(numel - std::min(numel, gradient.zeros));
    const double excess = static_cast<double>(moment.zero) - static_cast<double>(gradient.zeros);
    const double share = non_zero > 0 ? excess / non_zero : 0;
    const bool was = is_on(state, TensorRule::kOptimizerStateUnderflow);
    const bool on =
        run(state.streak[0], was, share > t_.optimizer_state_underflow_share, 1, t_.underflow_samples, state.since[kStreak]);
    if (was || on) judge(TensorRule::kOptimizerStateUnderflow, moment.id, on, share);
  }
}

void TensorWatch::end_gradients() {
  for (const std::uint32_t id : zero_ids_) {
    if (seen_[facts_[id].group].non_zero == 0) continue;
    State& state = tensors_[id];
    const bool was = is_on(state, TensorRule::kAllZeroGradient);
    const bool on = run(state.streak[1], was, true, t_.all_zero_gradient_samples, 1, state.since[kZeroStreak]);
    if (was || on) judge(TensorRule::kAllZeroGradient, id, on, static_cast<double>(facts_[id].numel));
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    const Seen& seen = seen_[i];
    if (seen.records == 0 || seen.bad > 0) continue;
    if (seen.limiting != kNone && (group.limiting == kNone || seen.headroom < group.headroom + kLimitingLeak)) {
      group.limiting = seen.limiting;
      group.headroom = seen.headroom;
    } else {
      group.headroom += kLimitingLeak;
    }
    if (seen.records >= kMost * group.gradients && !loss_bad_) {
      group.all_zero = run(group.zero_streak, group.all_zero, seen.non_zero == 0, t_.underflow_samples, 1, group.zero_since);
    }
    if (group.gradients < kMinDominated || seen.records < kNearlyAll * group.gradients) continue;
    const bool dominant = seen.largest > t_.dominant_gradient_share * seen.sum_sq;
    if (!dominant || seen.largest_id != group.dominant) group.dominant_streak = 0;
    group.dominates = group.dominates && dominant && seen.largest_id == group.dominant;
    group.dominant = seen.largest_id;
    Held& held = group.held[static_cast<std::size_t>(TensorRule::kDominantGradient)];
    held.worst.clear();
    group.dominates =
        run(group.dominant_streak, group.dominates, dominant, t_.dominant_gradient_samples, 1, group.dominant_since);
    if (group.dominates) held.worst.push_back({seen.largest_id, seen.largest / seen.sum_sq});
  }
}

}  // namespace scalewatch::domain
