#include "server/history/measured.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/record/format.h"
#include "cuda/record/merge.h"

namespace scalewatch::history {

namespace {

// A non-zero magnitude stays non-zero.
float divided(float value, double scale) {
  const auto result = static_cast<float>(value / scale);
  return result == 0 && value != 0 ? std::copysign(std::numeric_limits<float>::denorm_min(), value) : result;
}

void unscale(Measured& measured) {
  auto& record = measured.record;
  record.min = divided(record.min, measured.scale);
  record.max = divided(record.max, measured.scale);
  record.absmin_nonzero = divided(record.absmin_nonzero, measured.scale);
  record.sum /= measured.scale;
  record.sum_sq = record.sum_sq / measured.scale / measured.scale;
  measured.scale = 1;
}

void keep_first_bad(Measured& into, const Measured& from) {
  if (!from.first_bad_micro) return;
  into.first_bad_micro = std::min(into.first_bad_micro.value_or(*from.first_bad_micro), *from.first_bad_micro);
}

}  // namespace

std::optional<double> headroom_of(const Measured& measured) {
  // Of the stored values: under a loss scale it is they that overflow.
  const double octaves = headroom(measured.record, measured.target, 1);
  if (!std::isfinite(octaves)) return std::nullopt;
  return octaves;
}

void combine(Measured& into, const Measured& from) {
  if (into.target == DType::kUnspecified) into.target = from.target;
  keep_first_bad(into, from);
  if (into.scale == from.scale) {
    merge(into.record, from.record);
    return;
  }
  Measured unscaled = from;
  unscale(into);
  unscale(unscaled);
  merge(into.record, unscaled.record);
}

v1::Record to_proto(const Measured& measured) {
  Record record = measured.record;
  round_sums(record);
  v1::Record out;
  out.set_numel(record.numel);
  out.set_nan(record.nan);
  out.set_pos_inf(record.pos_inf);
  out.set_neg_inf(record.neg_inf);
  out.set_zero(record.zero);
  if (!std::isnan(record.min)) out.set_min(record.min);
  if (!std::isnan(record.max)) out.set_max(record.max);
  if (!std::isnan(record.absmin_nonzero)) out.set_absmin_nonzero(record.absmin_nonzero);
  if (!std::isnan(record.absmax())) out.set_absmax(record.absmax());
  out.set_sum(record.sum);
  out.set_sum_sq(record.sum_sq);
  out.set_subnormal(record.subnormal);
  out.set_flushed(record.flushed);
  out.set_over(record.over);
  out.set_measured_under_scale(measured.scale);
  out.set_target(static_cast<v1::DType>(measured.target));
  if (const auto octaves = headroom_of(measured)) out.set_headroom(*octaves);
  out.set_micro_batches(measured.micro_batches);
  if (measured.first_bad_micro) out.set_first_bad_micro(*measured.first_bad_micro);
  return out;
}

void RankMerge::add(std::uint32_t rank, std::uint32_t shard, const Measured& measured) {
  if (!any_) {
    any_ = true;
    first_rank_ = rank;
    first_ = {shard, measured};
    return;
  }
  if ((ranks_.empty() ? first_rank_ : ranks_.back()) != rank) ranks_.push_back(rank);
  Piece* same = first_.shard == shard ? &first_ : nullptr;
  for (std::size_t i = 0; same == nullptr && i < shards_.size(); ++i) {
    if (shards_[i].shard == shard) same = &shards_[i];
  }
  if (same == nullptr) {
    shards_.push_back({shard, measured});
    return;
  }
  auto& kept = same->measured.record;
  kept.nan = std::max(kept.nan, measured.record.nan);
  kept.pos_inf = std::max(kept.pos_inf, measured.record.pos_inf);
  kept.neg_inf = std::max(kept.neg_inf, measured.record.neg_inf);
  keep_first_bad(same->measured, measured);
}

Measured RankMerge::total() const {
  Measured total = first_.measured;
  for (const Piece& piece : shards_) {
    combine(total, piece.measured);
    total.micro_batches = std::max(total.micro_batches, piece.measured.micro_batches);
  }
  return total;
}

void RankMerge::clear() {
  any_ = false;
  shards_.clear();
  ranks_.clear();
}

}  // namespace scalewatch::history
