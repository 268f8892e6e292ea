#include "server/history/chunk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "server/engine/crc.h"
#include "server/history/varint.h"

namespace scalewatch::history {

namespace {

// Numbers of the record's columns; FORMAT.md lists them. A column whose values are all the default is left out.
enum Column : std::size_t {
  kNumel = 0,  // default: the table's numel times micro_batches
  kMin,
  kMax,
  kAbsmin,
  kSum,
  kSumSq,
  kZero,
  kSubnormal,
  kFlushed,
  kNanCount,
  kPosInf,
  kNegInf,
  kOver,
  kScale,
  kTarget,
  kMicro,
  kFirstBad,  // index + 1; 0 = absent
  // Of summaries only.
  kRecords,   // default: one in every report
  kFirst,     // place of the first record
  kLastBack,  // places between the last record and the last report
  kHeadroom,  // default: of the total
  kNorm,
  kUnderflow,
  kScaleLow,  // this and the next: default: of the total
  kScaleHigh,
  kColumns,
};
static_assert(kRecords == kRecordColumns);

constexpr float kAbsent = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint32_t kPresenceBit = 1U << 31;
constexpr std::uint32_t kSealBit = 1U << 30;  // a frame that ends with check_of() all before

NumberKind kind_of(std::size_t column) {
  switch (column) {
    case kMin:
    case kMax:
    case kAbsmin:
    case kNorm:
    case kUnderflow:
      return NumberKind::kFloat;
    case kSum:
    case kSumSq:
    case kScale:
    case kHeadroom:
    case kScaleLow:
    case kScaleHigh:
      return NumberKind::kDouble;
    default:
      return NumberKind::kInteger;
  }
}

std::uint64_t bits_of(float value) {
  // Every NaN means absent: one is enough.
  return std::bit_cast<std::uint32_t>(std::isnan(value) ? kAbsent : value);
}
std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}
float float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}
double double_of(std::uint64_t bits) {
  return std::bit_cast<double>(bits);
}

std::uint64_t default_of(std::size_t column, std::uint64_t numel, std::uint64_t micro) {
  switch (column) {
    case kNumel:
      return numel * micro;
    case kMin:
    case kMax:
    case kAbsmin:
      return bits_of(kAbsent);
    case kScale:
      return bits_of(1.0);
    case kMicro:
      return 1;
    default:
      return 0;
  }
}

// One record's values, by column.
void spread(const Measured& measured, std::uint64_t (&values)[kRecordColumns]) {
  const Record& record = measured.record;
  values[kNumel] = record.numel;
  values[kMin] = bits_of(record.min);
  values[kMax] = bits_of(record.max);
  values[kAbsmin] = bits_of(record.absmin_nonzero);
  values[kSum] = bits_of(record.sum);
  values[kSumSq] = bits_of(record.sum_sq);
  values[kZero] = record.zero;
  values[kSubnormal] = record.subnormal;
  values[kFlushed] = record.flushed;
  values[kNanCount] = record.nan;
  values[kPosInf] = record.pos_inf;
  values[kNegInf] = record.neg_inf;
  values[kOver] = record.over;
  values[kScale] = bits_of(measured.scale);
  values[kTarget] = static_cast<std::uint64_t>(measured.target);
  values[kMicro] = measured.micro_batches;
  values[kFirstBad] = measured.first_bad_micro ? std::uint64_t{*measured.first_bad_micro} + 1 : 0;
}

// The record whose column c is value(c), or the default where that is absent.
template <class Value>
Measured gather(const Value& value, std::uint64_t numel) {
  Measured measured;
  const std::uint64_t micro = value(kMicro, 1);
  const auto of = [&](std::size_t column) { return value(column, default_of(column, numel, micro)); };
  Record& record = measured.record;
  record.numel = of(kNumel);
  record.min = float_of(of(kMin));
  record.max = float_of(of(kMax));
  record.absmin_nonzero = float_of(of(kAbsmin));
  record.sum = double_of(of(kSum));
  record.sum_sq = double_of(of(kSumSq));
  record.zero = of(kZero);
  record.subnormal = of(kSubnormal);
  record.flushed = of(kFlushed);
  record.nan = of(kNanCount);
  record.pos_inf = of(kPosInf);
  record.neg_inf = of(kNegInf);
  record.over = of(kOver);
  measured.scale = double_of(of(kScale));
  measured.target = static_cast<DType>(of(kTarget));
  measured.micro_batches = static_cast<std::uint32_t>(micro);
  if (const std::uint64_t bad = of(kFirstBad); bad > 0) measured.first_bad_micro = static_cast<std::uint32_t>(bad - 1);
  return measured;
}

void put_u32(std::uint32_t value, char* to) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(to, &value, sizeof value);
}

void put_seal(std::string& blob) {
  const std::uint32_t crc = engine::crc32_of(blob);
  blob.resize(blob.size() + sizeof crc);
  put_u32(crc, &blob[blob.size() - sizeof crc]);
}

// Of a blob whose content ends at `end`.
Seal seal_at(std::string_view blob, std::size_t end) {
  std::uint32_t crc = 0;
  if (blob.size() == end) return Seal::kNone;
  if (blob.size() != end + sizeof crc) return Seal::kBroken;
  std::memcpy(&crc, blob.data() + end, sizeof crc);
  return crc == engine::crc32_of(blob.substr(0, end)) ? Seal::kWhole : Seal::kBroken;
}

// Calls put(record, bits) for `count` values of a column.
template <class Put>
void for_column(const PackedColumn& column, std::size_t count, const Put& put) {
  std::array<std::uint64_t, kMaxColumn> values;
  column.unpack(std::span(values).first(count));
  for (std::size_t i = 0; i < count; ++i) put(i, values[i]);
}

}  // namespace

// A frame is read alone and often: four times as fast as a CRC, and sees every change of a few bits as well.
std::uint32_t check_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ bytes.size();
  for (std::size_t i = 0; i < bytes.size(); i += sizeof hash) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  return static_cast<std::uint32_t>(hash);
}

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

void write_frame(const TensorRows& rows, std::size_t reports, std::uint64_t numel, std::string& out) {
  if (rows.rows.empty()) return;
  const std::size_t count = rows.rows.size();
  std::array<std::array<std::uint64_t, kMaxColumn>, kRecordColumns> values;
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t one[kRecordColumns];
    spread(rows.rows[i], one);
    for (std::size_t column = 0; column < kRecordColumns; ++column) {
      values[column][i] = one[column];
      mask |= static_cast<std::uint32_t>(one[column] != default_of(column, numel, one[kMicro])) << column;
    }
  }
  if (count < reports) mask |= kPresenceBit;
  const std::size_t start = out.size();
  put_varint(mask | kSealBit, out);
  if (count < reports) {
    const std::size_t begin = out.size();
    out.resize(begin + (reports + 7) / 8);
    for (const std::uint8_t place : rows.places) out[begin + place / 8] |= static_cast<char>(1U << place % 8);
  }
  for (std::size_t column = 0; column < kRecordColumns; ++column) {
    if ((mask >> column & 1U) != 0) pack_column(std::span(values[column]).first(count), kind_of(column), out);
  }
  const std::uint32_t check = check_of(std::string_view(out).substr(start));
  out.resize(out.size() + sizeof check);
  put_u32(check, &out[out.size() - sizeof check]);
}

bool FrameView::open(std::string_view bytes, std::size_t reports, std::uint64_t numel) {
  const std::string_view frame = bytes;
  std::uint64_t mask = 0;
  if (reports > kStretchReports || !take_varint(bytes, mask)) return false;
  mask_ = static_cast<std::uint32_t>(mask);
  if ((mask_ & kSealBit) != 0) {
    std::uint32_t check = 0;
    if (bytes.size() < sizeof check) return false;
    bytes.remove_suffix(sizeof check);
    std::memcpy(&check, frame.data() + frame.size() - sizeof check, sizeof check);
    if (check != check_of(frame.substr(0, frame.size() - sizeof check))) return false;
  }
  reports_ = reports;
  numel_ = numel;
  presence_ = {};
  std::size_t count = reports;
  if ((mask_ & kPresenceBit) != 0) {
    const std::size_t size = (reports + 7) / 8;
    if (bytes.size() < size) return false;
    presence_ = bytes.substr(0, size);
    bytes.remove_prefix(size);
    count = 0;
    for (const char byte : presence_) count += static_cast<std::size_t>(std::popcount(static_cast<std::uint8_t>(byte)));
    if (count > reports) return false;
  }
  for (std::size_t column = 0; column < kRecordColumns; ++column) {
    if ((mask_ >> column & 1U) != 0 && !columns_[column].open(bytes, count, kind_of(column))) return false;
  }
  // One whose mask lost the bit has four bytes too many.
  if (!bytes.empty()) return false;
  records_ = count;
  return true;
}

std::optional<Measured> FrameView::at(std::size_t place) const {
  if (place >= reports_) return std::nullopt;
  std::size_t index = place;
  if (!presence_.empty()) {
    const auto byte = static_cast<std::uint8_t>(presence_[place / 8]);
    if ((byte >> place % 8 & 1U) == 0) return std::nullopt;
    index = static_cast<std::size_t>(std::popcount(static_cast<std::uint8_t>(byte & ((1U << place % 8) - 1))));
    for (std::size_t i = 0; i < place / 8; ++i) {
      index += static_cast<std::size_t>(std::popcount(static_cast<std::uint8_t>(presence_[i])));
    }
  }
  return gather([&](std::size_t column,
                    std::uint64_t otherwise) { return (mask_ >> column & 1U) != 0 ? columns_[column].at(index) : otherwise; },
                numel_);
}

void FrameView::read_places(TensorRows& out) const {
  out.places.clear();
  if (presence_.empty()) {
    for (std::size_t place = 0; place < reports_; ++place) out.places.push_back(static_cast<std::uint8_t>(place));
  } else {
    for (std::size_t place = 0; place < reports_; ++place) {
      if ((static_cast<std::uint8_t>(presence_[place / 8]) >> place % 8 & 1U) != 0) {
        out.places.push_back(static_cast<std::uint8_t>(place));
      }
    }
  }
}

void FrameView::read(TensorRows& out) const {
  read_places(out);
  std::array<std::array<std::uint64_t, kMaxColumn>, kRecordColumns> values;
  for (std::size_t column = 0; column < kRecordColumns; ++column) {
    if ((mask_ >> column & 1U) != 0) columns_[column].unpack(std::span(values[column]).first(records_));
  }
  out.rows.clear();
  for (std::size_t i = 0; i < records_; ++i) {
    out.rows.push_back(
        gather([&](std::size_t column,
                   std::uint64_t otherwise) { return (mask_ >> column & 1U) != 0 ? values[column][i] : otherwise; },
               numel_));
  }
}

void FrameView::read(Need need, TensorRows& out) const {
  read_places(out);
  out.rows.assign(records_, Measured{});
  const auto take = [&](std::size_t column, const auto& put) {
    if ((mask_ >> column & 1U) != 0) for_column(columns_[column], records_, put);
  };
  auto& rows = out.rows;
  const auto take_count = [&](std::size_t column, std::uint64_t Record::*field) {
    take(column, [&](std::size_t i, std::uint64_t bits) { rows[i].record.*field = bits; });
  };
  if (need == Need::kHeadroom || need == Need::kMagnitude) {
    take(kMin, [&](std::size_t i, std::uint64_t bits) { rows[i].record.min = float_of(bits); });
    take(kMax, [&](std::size_t i, std::uint64_t bits) { rows[i].record.max = float_of(bits); });
  } else {
    take_count(kNanCount, &Record::nan);
    take_count(kPosInf, &Record::pos_inf);
    take_count(kNegInf, &Record::neg_inf);
  }
  if (need == Need::kHeadroom) {
    take(kTarget, [&](std::size_t i, std::uint64_t bits) { rows[i].target = static_cast<DType>(bits); });
  } else {
    take(kScale, [&](std::size_t i, std::uint64_t bits) { rows[i].scale = double_of(bits); });
  }
  if (need != Need::kUnderflow && need != Need::kNorm) return;
  for (auto& row : rows) row.record.numel = numel_;
  take(kMicro, [&](std::size_t i, std::uint64_t bits) { rows[i].record.numel = numel_ * bits; });
  take_count(kNumel, &Record::numel);
  if (need == Need::kNorm) {
    take(kSumSq, [&](std::size_t i, std::uint64_t bits) { rows[i].record.sum_sq = double_of(bits); });
  } else {
    take_count(kZero, &Record::zero);
    take_count(kSubnormal, &Record::subnormal);
  }
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

std::string join_frames(std::span<const std::string> frames) {
  std::string blob((frames.size() + 1) * kOffsetBytes, '\0');
  auto offset = static_cast<std::uint32_t>(blob.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    put_u32(offset, &blob[i * kOffsetBytes]);
    offset += static_cast<std::uint32_t>(frames[i].size());
  }
  put_u32(offset, &blob[frames.size() * kOffsetBytes]);
  blob.reserve(offset);
  for (const auto& frame : frames) blob += frame;
  put_seal(blob);
  return blob;
}

Seal seal_of_chunk(std::string_view blob) {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  if (blob.size() < 2 * kOffsetBytes) return Seal::kBroken;
  std::memcpy(&first, blob.data(), sizeof first);
  if (first < 2 * kOffsetBytes || first % kOffsetBytes != 0 || first > blob.size()) return Seal::kBroken;
  std::memcpy(&end, blob.data() + first - kOffsetBytes, sizeof end);
  return seal_at(blob, end);
}

std::string_view frame_of(std::string_view blob, std::size_t tensor) {
  if (blob.size() < (tensor + 2) * kOffsetBytes) return {};
  std::uint32_t ends[2];
  std::memcpy(ends, blob.data() + tensor * kOffsetBytes, sizeof ends);
  if (ends[0] > ends[1] || ends[1] > blob.size()) return {};
  return blob.substr(ends[0], ends[1] - ends[0]);
}

}  // namespace scalewatch::history
