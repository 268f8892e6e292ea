// What chunks and their summaries have in common: a record's columns, and what ends a blob. Header-only; for chunk.cc and
// chunk_summaries.cc alone.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "server/engine/crc.h"
#include "server/history/chunk.h"

namespace scalewatch::history::columns {

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

inline constexpr float kAbsent = std::numeric_limits<float>::quiet_NaN();

inline NumberKind kind_of(std::size_t column) {
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

inline std::uint64_t bits_of(float value) {
  // Every NaN means absent: one is enough.
  return std::bit_cast<std::uint32_t>(std::isnan(value) ? kAbsent : value);
}
inline std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}
inline float float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}
inline double double_of(std::uint64_t bits) {
  return std::bit_cast<double>(bits);
}

inline std::uint64_t default_of(std::size_t column, std::uint64_t numel, std::uint64_t micro) {
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
inline void spread(const Measured& measured, std::uint64_t (&values)[kRecordColumns]) {
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

inline void put_u32(std::uint32_t value, char* to) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(to, &value, sizeof value);
}

inline void put_seal(std::string& blob) {
  const std::uint32_t crc = engine::crc32_of(blob);
  blob.resize(blob.size() + sizeof crc);
  put_u32(crc, &blob[blob.size() - sizeof crc]);
}

// Of a blob whose content ends at `end`.
inline Seal seal_at(std::string_view blob, std::size_t end) {
  std::uint32_t crc = 0;
  if (blob.size() == end) return Seal::kNone;
  if (blob.size() != end + sizeof crc) return Seal::kBroken;
  std::memcpy(&crc, blob.data() + end, sizeof crc);
  return crc == engine::crc32_of(blob.substr(0, end)) ? Seal::kWhole : Seal::kBroken;
}

// Calls put(record, bits) for `count` values of a column.
template <class Put>
inline void for_column(const PackedColumn& column, std::size_t count, const Put& put) {
  std::array<std::uint64_t, kMaxColumn> values;
  column.unpack(std::span(values).first(count));
  for (std::size_t i = 0; i < count; ++i) put(i, values[i]);
}

}  // namespace scalewatch::history::columns
