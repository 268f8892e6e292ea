// What chunks keep of their tensors in short.
#include <algorithm>
#include <cmath>
#include <limits>

#include "server/history/chunk.h"
#include "server/history/chunk_columns.h"
#include "server/history/varint.h"

namespace scalewatch::history {

using namespace columns;

float rounded_up(double value) {
  const auto near = static_cast<float>(value);
  return near < value ? std::nextafter(near, std::numeric_limits<float>::infinity()) : near;
}

std::optional<double> underflow_of(const Measured& measured) {
  const Record& record = measured.record;
  const std::uint64_t finite = record.finite();
  if (finite <= record.zero || record.subnormal == 0) return std::nullopt;
  return static_cast<double>(record.subnormal) / static_cast<double>(finite - record.zero);
}

std::optional<double> norm_of(const Measured& measured) {
  if (measured.record.finite() == 0) return std::nullopt;
  return std::sqrt(measured.record.sum_sq) / measured.scale;
}

void TensorSummary::add_total(std::uint32_t place, const Measured& measured) {
  if (records++ == 0) {
    total = measured;
    first = place;
    scale_low = scale_high = measured.scale;
  } else {
    scale_low = std::min(scale_low, measured.scale);
    scale_high = std::max(scale_high, measured.scale);
    combine(total, measured);
    total.micro_batches += measured.micro_batches;
  }
  last = place;
}

void TensorSummary::add(std::uint32_t place, const Measured& measured) {
  add_total(place, measured);
  // The logarithm costs more than all else here: a smaller magnitude has no less headroom.
  const float absmax = measured.record.absmax();
  if (!(measured.target == worst_target && absmax <= worst)) {
    if (const auto octaves = headroom_of(measured); octaves && (!headroom || *octaves < *headroom)) {
      headroom = octaves;
      worst = absmax;
      worst_target = measured.target;
    }
  }
  if (const auto value = norm_of(measured); value && *value > norm) norm = rounded_up(*value);
  if (const auto value = underflow_of(measured); value && *value > underflow) underflow = rounded_up(*value);
}

void TensorSummary::add(const TensorSummary& later) {
  combine(total, later.total);
  total.micro_batches += later.total.micro_batches;
  records += later.records;
  scale_low = std::min(scale_low, later.scale_low);
  scale_high = std::max(scale_high, later.scale_high);
  if (later.headroom && (!headroom || *later.headroom < *headroom)) {
    headroom = later.headroom;
    worst = later.worst;
    worst_target = later.worst_target;
  }
  norm = std::max(norm, later.norm);
  underflow = std::max(underflow, later.underflow);
}

std::string write_summaries(std::span<const TensorSummary> tensors, std::size_t reports,
                            std::span<const std::uint64_t> numels) {
  std::array<std::array<std::uint64_t, kMaxColumn>, kColumns> values;
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSummary& tensor = tensors[i];
    std::uint64_t one[kRecordColumns];
    spread(tensor.total, one);
    for (std::size_t column = 0; column < kRecordColumns; ++column) {
      values[column][i] = tensor.records == 0 ? default_of(column, numels[i], 1) : one[column];
      const std::uint64_t usual = default_of(column, numels[i], tensor.records == 0 ? 1 : one[kMicro]);
      mask |= static_cast<std::uint32_t>(values[column][i] != usual) << column;
    }
    const auto put = [&](std::size_t column, std::uint64_t value, std::uint64_t usual) {
      values[column][i] = value;
      mask |= static_cast<std::uint32_t>(value != usual) << column;
    };
    const bool any = tensor.records > 0;
    put(kRecords, tensor.records, reports);
    put(kFirst, any ? tensor.first : 0, 0);
    put(kLastBack, any ? reports - 1 - tensor.last : 0, 0);
    const auto usual = any ? headroom_of(tensor.total) : std::nullopt;
    const double none = std::numeric_limits<double>::infinity();
    put(kHeadroom, bits_of(any ? tensor.headroom.value_or(none) : none), bits_of(usual.value_or(none)));
    put(kNorm, bits_of(any ? tensor.norm : 0.0F), 0);
    put(kUnderflow, bits_of(any ? tensor.underflow : 0.0F), 0);
    const double scale = any ? tensor.total.scale : 1;
    put(kScaleLow, bits_of(any ? tensor.scale_low : 1.0), bits_of(scale));
    put(kScaleHigh, bits_of(any ? tensor.scale_high : 1.0), bits_of(scale));
  }
  std::string out;
  out.push_back(static_cast<char>(tensors.size()));
  put_varint(mask, out);
  for (std::size_t column = 0; column < kColumns; ++column) {
    if ((mask >> column & 1U) != 0) pack_column(std::span(values[column]).first(tensors.size()), kind_of(column), out);
  }
  put_seal(out);
  return out;
}

bool SummariesView::open(std::string_view bytes, std::size_t reports) {
  static_assert(kRecordColumns + kExtra == kColumns);
  const std::string_view blob = bytes;
  if (bytes.empty() || reports == 0) return false;
  tensors_ = static_cast<std::uint8_t>(bytes.front());
  bytes.remove_prefix(1);
  reports_ = reports;
  std::uint64_t mask = 0;
  if (tensors_ > kChunkTensors || !take_varint(bytes, mask)) return false;
  mask_ = static_cast<std::uint32_t>(mask);
  for (std::size_t column = 0; column < kColumns; ++column) {
    if (has(column) && !columns_[column].open(bytes, tensors_, kind_of(column))) return false;
  }
  return seal_at(blob, blob.size() - bytes.size()) != Seal::kBroken;
}

std::uint32_t SummariesView::records(std::size_t tensor) const {
  if (tensor >= tensors_) return 0;
  return static_cast<std::uint32_t>(has(kRecords) ? columns_[kRecords].at(tensor) : reports_);
}

TensorSummary SummariesView::at(std::size_t tensor, std::uint64_t numel) const {
  TensorSummary summary;
  summary.records = records(tensor);
  if (summary.records == 0) return summary;
  const auto value = [&](std::size_t column, std::uint64_t otherwise) {
    return has(column) ? columns_[column].at(tensor) : otherwise;
  };
  summary.total = gather(value, numel);
  summary.first = static_cast<std::uint32_t>(value(kFirst, 0));
  summary.last = static_cast<std::uint32_t>(reports_ - 1 - std::min<std::uint64_t>(value(kLastBack, 0), reports_ - 1));
  summary.headroom = headroom_of(summary.total);
  if (has(kHeadroom)) {
    const double octaves = double_of(value(kHeadroom, 0));
    summary.headroom = std::isfinite(octaves) ? std::optional(octaves) : std::nullopt;
  }
  summary.scale_low = double_of(value(kScaleLow, bits_of(summary.total.scale)));
  summary.scale_high = double_of(value(kScaleHigh, bits_of(summary.total.scale)));
  summary.norm = float_of(value(kNorm, 0));
  summary.underflow = float_of(value(kUnderflow, 0));
  return summary;
}

template <class Put>
void SummariesView::each(std::size_t column, std::size_t count, const Put& put) const {
  if (has(column)) for_column(columns_[column], count, put);
}

void SummariesView::bound(Need need, bool cut, std::span<ScoreBound> bounds) const {
  const std::size_t count = std::min(bounds.size(), tensors_);
  std::array<std::uint64_t, kMaxColumn> records;
  std::fill_n(records.begin(), count, reports_);
  each(kRecords, count, [&](std::size_t i, std::uint64_t bits) { records[i] = bits; });
  const auto lift = [&](std::size_t i, double value, bool exact) {
    if (records[i] == 0) return;
    double& known = exact && !cut ? bounds[i].exact : bounds[i].most;
    known = std::max(known, value);
  };
  std::array<float, kMaxColumn> absmax;
  const auto take_absmax = [&] {
    std::fill_n(absmax.begin(), count, kAbsent);
    each(kMax, count, [&](std::size_t i, std::uint64_t bits) { absmax[i] = float_of(bits); });
    each(kMin, count, [&](std::size_t i, std::uint64_t bits) { absmax[i] = std::max(-float_of(bits), absmax[i]); });
  };
  switch (need) {
    case Need::kHeadroom: {
      if (has(kHeadroom)) {
        each(kHeadroom, count, [&](std::size_t i, std::uint64_t bits) {
          if (const double octaves = double_of(bits); std::isfinite(octaves)) lift(i, -octaves, true);
        });
        return;
      }
      take_absmax();
      each(kTarget, count, [&](std::size_t i, std::uint64_t bits) {
        ScoreBound& bound = bounds[i];
        const auto target = static_cast<DType>(bits);
        if (!cut && target == bound.target && absmax[i] <= bound.peak) return;
        Measured peak;
        peak.record.max = absmax[i];
        peak.record.min = -absmax[i];
        peak.target = target;
        const auto octaves = headroom_of(peak);
        if (!octaves) return;
        if (!cut && records[i] != 0 && -*octaves > bound.exact) {
          bound.peak = absmax[i];
          bound.target = target;
        }
        lift(i, -*octaves, true);
      });
      return;
    }
    case Need::kMagnitude: {
      take_absmax();
      std::array<double, kMaxColumn> scale;
      std::array<bool, kMaxColumn> several{};
      std::fill_n(scale.begin(), count, 1.0);
      each(kScale, count, [&](std::size_t i, std::uint64_t bits) { scale[i] = double_of(bits); });
      // Each is the scale of the whole unless there are several.
      for (const std::size_t column : {kScaleLow, kScaleHigh}) {
        each(column, count, [&](std::size_t i, std::uint64_t bits) { several[i] = several[i] || double_of(bits) != scale[i]; });
      }
      // Values under several scales were divided as floats.
      constexpr double kSlack = 1 + 1e-6;
      for (std::size_t i = 0; i < count; ++i) {
        if (!std::isnan(absmax[i])) lift(i, absmax[i] / scale[i] * (several[i] ? kSlack : 1), !several[i]);
      }
      return;
    }
    case Need::kNonFinite: {
      std::array<std::uint64_t, kMaxColumn> sum{};
      for (const std::size_t column : {kNanCount, kPosInf, kNegInf}) {
        each(column, count, [&](std::size_t i, std::uint64_t bits) { sum[i] += bits; });
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (records[i] == 0 || sum[i] == 0) continue;
        double& known = cut ? bounds[i].most : bounds[i].exact;
        known = std::max(known, 0.0) + static_cast<double>(sum[i]);
      }
      return;
    }
    case Need::kUnderflow:
      each(kUnderflow, count, [&](std::size_t i, std::uint64_t bits) {
        if (const float share = float_of(bits); share > 0) lift(i, share, true);
      });
      return;
    case Need::kNorm: {
      // A norm of 0 may be that of records without finite elements, which have none.
      std::array<float, kMaxColumn> norm{};
      each(kNorm, count, [&](std::size_t i, std::uint64_t bits) { norm[i] = float_of(bits); });
      for (std::size_t i = 0; i < count; ++i) lift(i, norm[i], norm[i] > 0);
      return;
    }
  }
}

}  // namespace scalewatch::history
