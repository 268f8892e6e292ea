#include "server/history/score_groups.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "cuda/record/format.h"
#include "server/history/keys.h"
#include "server/history/packed_column.h"
#include "server/history/varint.h"

namespace scalewatch::history {

namespace {

// Numbers of the columns; FORMAT.md lists them. A column whose values are all the default is left out.
enum Column : std::size_t { kPeak = 0, kScale, kTarget, kMagnitude, kNorm, kUnderflow, kNonFinite, kColumns };
constexpr std::uint32_t kAllColumns = (1U << kColumns) - 1;

NumberKind kind_of(std::size_t column) {
  switch (column) {
    case kScale:
      return NumberKind::kDouble;
    case kTarget:
    case kNonFinite:
      return NumberKind::kInteger;
    default:
      return NumberKind::kFloat;
  }
}

std::uint64_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(std::isnan(value) ? GroupScores::kNone : value);
}
float float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

float unscaled(float peak, double scale) {
  return static_cast<float>(peak / scale);
}

Measured peak_of(float peak, DType target) {
  Measured measured;
  measured.record.min = -peak;
  measured.record.max = peak;
  measured.target = target;
  return measured;
}

// The larger one, where there is one.
void widen(float& largest, float value) {
  if (!(largest >= value)) largest = value;
}

// Columns of a frame, each only when it is asked for.
class Columns {
 public:
  bool open(std::string_view frame, std::size_t groups) {
    std::uint64_t mask = 0;
    std::uint32_t check = 0;
    if (groups > kMaxColumn || frame.size() < sizeof check) return false;
    std::string_view rest = frame.substr(0, frame.size() - sizeof check);
    std::memcpy(&check, frame.data() + rest.size(), sizeof check);
    if (check != check_of(rest) || !take_varint(rest, mask) || mask > kAllColumns) return false;
    mask_ = static_cast<std::uint32_t>(mask);
    groups_ = groups;
    for (std::size_t column = 0; column < kColumns; ++column) {
      if (has(column) && !columns_[column].open(rest, groups, kind_of(column))) return false;
    }
    return rest.empty();
  }
  [[nodiscard]] bool has(std::size_t column) const { return (mask_ >> column & 1U) != 0; }
  // Calls put(group, bits) for each group; not at all for a column that is left out.
  template <class Put>
  void each(std::size_t column, const Put& put) const {
    if (!has(column)) return;
    std::array<std::uint64_t, kMaxColumn> values;
    columns_[column].unpack(std::span(values).first(groups_));
    for (std::size_t i = 0; i < groups_; ++i) put(i, values[i]);
  }

 private:
  std::array<PackedColumn, kColumns> columns_;
  std::size_t groups_ = 0;
  std::uint32_t mask_ = 0;
};

// Fills what `need` takes, of groups that are as new.
void fill(const Columns& columns, Need need, std::vector<GroupScores>& groups) {
  const auto floats = [&](std::size_t column, float GroupScores::*field) {
    columns.each(column, [&](std::size_t i, std::uint64_t bits) { groups[i].*field = float_of(bits); });
  };
  switch (need) {
    case Need::kNorm:
      return floats(kNorm, &GroupScores::norm);
    case Need::kUnderflow:
      return floats(kUnderflow, &GroupScores::underflow);
    case Need::kNonFinite:
      return columns.each(kNonFinite, [&](std::size_t i, std::uint64_t bits) { groups[i].non_finite = bits; });
    case Need::kHeadroom:
      floats(kPeak, &GroupScores::peak);
      return columns.each(kTarget, [&](std::size_t i, std::uint64_t bits) { groups[i].target = static_cast<DType>(bits); });
    case Need::kMagnitude:
      floats(kPeak, &GroupScores::peak);
      columns.each(kScale, [&](std::size_t i, std::uint64_t bits) { groups[i].scale = std::bit_cast<double>(bits); });
      for (auto& group : groups) group.magnitude = unscaled(group.peak, group.scale);
      return floats(kMagnitude, &GroupScores::magnitude);
  }
}

}  // namespace

GroupSplit split_groups(const std::vector<Interval>& attempts, std::uint64_t width) {
  GroupSplit out;
  for (const Interval& piece : attempts) {
    std::uint64_t first = group_of(piece.first, width);
    if (group_begin(first, width) < piece.first) ++first;
    const std::uint64_t last = group_of(piece.last, width);
    const std::uint64_t end = group_end(last, width) > piece.last ? last : last + 1;  // exclusive
    if (first >= end) {
      out.edges.push_back(piece);
      continue;
    }
    const Interval whole{group_begin(first, width), group_end(end - 1, width)};
    out.whole.push_back(whole);
    for (const Interval& edge : without(piece, {whole})) out.edges.push_back(edge);
  }
  return out;
}

std::vector<std::uint64_t> groups_of(std::span<const std::uint64_t> attempts) {
  std::vector<std::uint64_t> groups;
  for (const std::uint64_t attempt : attempts) {
    if (const std::uint64_t group = group_of(attempt); groups.empty() || groups.back() != group) groups.push_back(group);
  }
  return groups;
}

// Logarithms cost more than all else here: they decide only between targets.
void GroupScores::take_peak(float absmax, double its_scale, DType its_target) {
  const bool first = std::isnan(peak);
  if (!first && its_target == target) {
    if (absmax <= peak) return;
  } else {
    const auto has_headroom = absmax > 0 && std::isfinite(absmax) && format_limits(its_target).max_finite > 0;
    if (!has_headroom || (!first && *headroom_of(peak_of(absmax, its_target)) >= *headroom())) return;
  }
  peak = absmax;
  scale = its_scale;
  target = its_target;
}

void GroupScores::add(const Measured& measured) {
  const Record& record = measured.record;
  non_finite += record.non_finite();
  // Rounded only where it counts.
  const auto take = [](float& largest, std::optional<double> value) {
    if (value && !(largest >= *value) && !std::isnan(*value)) largest = rounded_up(*value);
  };
  take(norm, norm_of(measured));
  take(underflow, underflow_of(measured));
  const float absmax = record.absmax();
  // Most are no larger than one before.
  if (std::isnan(absmax) || (measured.target == target && measured.scale == scale && absmax <= peak)) return;
  widen(magnitude, unscaled(absmax, measured.scale));
  take_peak(absmax, measured.scale, measured.target);
}

void GroupScores::add(const GroupScores& other) {
  non_finite += other.non_finite;
  for (const auto field : {&GroupScores::magnitude, &GroupScores::norm, &GroupScores::underflow}) {
    if (!std::isnan(other.*field)) widen(this->*field, other.*field);
  }
  if (!std::isnan(other.peak)) take_peak(other.peak, other.scale, other.target);
}

std::optional<double> GroupScores::headroom() const {
  if (std::isnan(peak)) return std::nullopt;
  return headroom_of(peak_of(peak, target));
}

double GroupScores::shown(By::By by) const {
  switch (need_of(by)) {
    case Need::kMagnitude:
      return magnitude;
    case Need::kUnderflow:
      return underflow;
    case Need::kNonFinite:
      return non_finite == 0 ? static_cast<double>(kNone) : static_cast<double>(non_finite);
    case Need::kNorm:
      return norm;
    case Need::kHeadroom:
      break;
  }
  return headroom().value_or(kNone);
}

void write_scores(std::span<const GroupScores> groups, std::string& out) {
  std::array<std::array<std::uint64_t, kMaxColumn>, kColumns> values;
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const GroupScores& group = groups[i];
    const auto put = [&](std::size_t column, std::uint64_t value, std::uint64_t usual) {
      values[column][i] = value;
      mask |= static_cast<std::uint32_t>(value != usual) << column;
    };
    const std::uint64_t none = bits_of(GroupScores::kNone);
    put(kPeak, bits_of(group.peak), none);
    put(kScale, std::bit_cast<std::uint64_t>(group.scale), std::bit_cast<std::uint64_t>(1.0));
    put(kTarget, static_cast<std::uint64_t>(group.target), 0);
    put(kMagnitude, bits_of(group.magnitude), bits_of(unscaled(group.peak, group.scale)));
    put(kNorm, bits_of(group.norm), none);
    put(kUnderflow, bits_of(group.underflow), none);
    put(kNonFinite, group.non_finite, 0);
  }
  const std::size_t start = out.size();
  put_varint(mask, out);
  for (std::size_t column = 0; column < kColumns; ++column) {
    if ((mask >> column & 1U) != 0) pack_column(std::span(values[column]).first(groups.size()), kind_of(column), out);
  }
  const std::uint32_t check = check_of(std::string_view(out).substr(start));
  out.append(reinterpret_cast<const char*>(&check), sizeof check);
}

bool read_scores(std::string_view frame, std::size_t groups, By::By by, std::vector<double>& shown) {
  Columns columns;
  if (!columns.open(frame, groups)) return false;
  std::vector<GroupScores> all(groups);
  fill(columns, need_of(by), all);
  shown.resize(groups);
  for (std::size_t i = 0; i < groups; ++i) shown[i] = all[i].shown(by);
  return true;
}

bool same_scores(std::string_view blob, std::string_view other, std::size_t groups) {
  if (seal_of_chunk(blob) == Seal::kBroken) return false;
  const auto all_of = [&](std::string_view frame) {
    std::vector<GroupScores> all(groups);
    std::string packed;
    if (Columns columns; columns.open(frame, groups)) {
      for (const Need need : {Need::kHeadroom, Need::kMagnitude, Need::kNonFinite, Need::kUnderflow, Need::kNorm}) {
        fill(columns, need, all);
      }
      write_scores(all, packed);
    }
    return packed;
  };
  for (std::uint32_t i = 0; i < kScoreTensors; ++i) {
    const auto frame = frame_of(blob, i);
    const auto expected = frame_of(other, i);
    if (frame.empty() != expected.empty() || (!frame.empty() && all_of(frame) != all_of(expected))) return false;
  }
  return true;
}

}  // namespace scalewatch::history
