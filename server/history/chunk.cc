#include "server/history/chunk.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "server/history/chunk_columns.h"
#include "server/history/varint.h"

namespace scalewatch::history {

using namespace columns;

namespace {

constexpr std::uint32_t kPresenceBit = 1U << 31;
constexpr std::uint32_t kSealBit = 1U << 30;  // a frame that ends with check_of() all before

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

std::optional<FramePlace> frame_place(std::string_view front, std::size_t tensor) {
  const std::size_t offsets = (tensor + 2) * kOffsetBytes;
  if (front.size() < offsets) return std::nullopt;
  std::uint32_t first = 0;
  std::uint32_t ends[2];
  std::memcpy(&first, front.data(), sizeof first);
  std::memcpy(ends, front.data() + tensor * kOffsetBytes, sizeof ends);
  if (first < offsets || ends[0] >= ends[1]) return std::nullopt;
  return FramePlace{ends[0], ends[1]};
}

std::string_view frame_of(std::string_view blob, std::size_t tensor) {
  const auto place = frame_place(blob, tensor);
  if (!place || place->end > blob.size()) return {};
  return blob.substr(place->begin, place->end - place->begin);
}

}  // namespace scalewatch::history
