// Tensor-major chunks: 64 tensors of a stream over a stretch of up to 128 reports (see FORMAT.md, "Chunk").
//
// Pure and thread-safe. What is read may come from a damaged file: then functions say false or give nothing, never read beyond.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/history/measured.h"
#include "server/history/packed_column.h"

namespace scalewatch::history {

inline constexpr std::uint32_t kChunkTensors = 64;
inline constexpr std::size_t kStretchReports = 128;

// Several attempts of one tensor of one rank taken together, as a chunk's summary keeps them.
struct TensorSummary {
  std::uint32_t records = 0;  // 0: all else is without meaning
  std::uint32_t first = 0;    // place in the stretch of the first report with a record
  std::uint32_t last = 0;     // and of the last
  Measured total;             // combined in order; micro_batches added
  double scale_low = 1;       // smallest and largest scale that they were stored under
  double scale_high = 1;
  std::optional<double> headroom;                         // smallest
  float worst = std::numeric_limits<float>::quiet_NaN();  // absmax of the record with the smallest headroom, its target
  DType worst_target = DType::kUnspecified;
  float norm = 0;       // largest square root of the sum of squares, unscaled; rounded up
  float underflow = 0;  // largest share of subnormal among non-zero elements; rounded up

  void add(std::uint32_t place, const Measured& measured);
  // The same but for headroom, norm and underflow.
  void add_total(std::uint32_t place, const Measured& measured);
  // Adds records that come after; places are left alone.
  void add(const TensorSummary& later);
};

// Share of subnormal among finite non-zero elements; absent when there are none or none is subnormal.
std::optional<double> underflow_of(const Measured& measured);
// Square root of the sum of squares, unscaled; absent when no element is finite.
std::optional<double> norm_of(const Measured& measured);

// What a reader ranks or draws tensors by: it gets only what that takes, several times faster than whole records.
enum class Need : std::uint8_t { kHeadroom, kMagnitude, kNonFinite, kUnderflow, kNorm };

// To the float that is not smaller.
float rounded_up(double value);

// The records of one tensor over a stretch.
struct TensorRows {
  std::vector<std::uint8_t> places;  // in the stretch, rising
  std::vector<Measured> rows;        // as many
};

// What ends a frame: of all before it.
std::uint32_t check_of(std::string_view bytes);

// Appends a tensor's frame. `numel`: of one measurement, by the table. `reports`: of the stretch.
void write_frame(const TensorRows& rows, std::size_t reports, std::uint64_t numel, std::string& out);

inline constexpr std::size_t kRecordColumns = 17;

// A tensor's frame. The bytes must outlive it.
class FrameView {
 public:
  // False for bytes that are no frame.
  bool open(std::string_view bytes, std::size_t reports, std::uint64_t numel);
  // The record of the report at `place`; absent when it has none.
  [[nodiscard]] std::optional<Measured> at(std::size_t place) const;
  // All records.
  void read(TensorRows& out) const;
  // The same, each with only what it takes to score() it by `need`; the rest is as in an empty one.
  void read(Need need, TensorRows& out) const;

 private:
  void read_places(TensorRows& out) const;

  std::array<PackedColumn, kRecordColumns> columns_;
  std::size_t records_ = 0;
  std::string_view presence_;  // empty: every report has a record
  std::size_t reports_ = 0;
  std::uint64_t numel_ = 0;
  std::uint32_t mask_ = 0;
};

// The summaries of a chunk, packed across its tensors. `numels` as for write_frame, one a tensor.
std::string write_summaries(std::span<const TensorSummary> tensors, std::size_t reports, std::span<const std::uint64_t> numels);

// What summaries tell of a tensor's score (see scores.h; larger leads) without its records.
struct ScoreBound {
  static constexpr double kNone = -std::numeric_limits<double>::infinity();
  double exact = kNone;  // largest of those that tell it exactly; of non-finite elements their sum
  double most = kNone;   // of the others: no record has more, and all together no more than this sum
  float peak =
      std::numeric_limits<float>::quiet_NaN();  // absmax and target behind `exact`, of headroom: a smaller one has no less
  DType target = DType::kUnspecified;
};

class SummariesView {
 public:
  // False for bytes that are none, or are not what was written.
  bool open(std::string_view bytes, std::size_t reports);
  [[nodiscard]] std::size_t tensors() const { return tensors_; }
  [[nodiscard]] std::uint32_t records(std::size_t tensor) const;
  // `numel` of one measurement, by the table.
  [[nodiscard]] TensorSummary at(std::size_t tensor, std::uint64_t numel) const;
  // Adds what they tell to the first tensors' bounds. `cut`: some of the records don't count.
  void bound(Need need, bool cut, std::span<ScoreBound> bounds) const;

 private:
  static constexpr std::size_t kExtra = 8;
  [[nodiscard]] bool has(std::size_t column) const { return (mask_ >> column & 1U) != 0; }
  template <class Put>
  void each(std::size_t column, std::size_t count, const Put& put) const;

  std::array<PackedColumn, kRecordColumns + kExtra> columns_;
  std::size_t tensors_ = 0;
  std::size_t reports_ = 0;
  std::uint32_t mask_ = 0;
};

// What ends the blob of a chunk or of summaries: the CRC-32 of all before it. Older ones have none.
enum class Seal : std::uint8_t { kNone, kWhole, kBroken };
Seal seal_of_chunk(std::string_view blob);

// A chunk's blob: the offsets of its frames, then the frames.
std::string join_frames(std::span<const std::string> frames);
inline constexpr std::size_t kOffsetBytes = 4;
struct FramePlace {
  std::size_t begin = 0;
  std::size_t end = 0;
};
// Where frame `tensor` lies in a blob of which this is the front, kOffsetBytes * (tensor + 2) of it at least; absent when there
// is none: a chunk has as many frames as there were tensors when it was made, and where they begin the offsets end.
std::optional<FramePlace> frame_place(std::string_view front, std::size_t tensor);
// Frame `tensor` of a whole blob; empty when there is none.
std::string_view frame_of(std::string_view blob, std::size_t tensor);

}  // namespace scalewatch::history
