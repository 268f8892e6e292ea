// A chunk with its summaries, as their rows are written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/history/chunk.h"
#include "server/history/score_groups.h"
#include "server/history/sqlite.h"

namespace scalewatch::history {

// The tensors of a chunk over a stretch.
struct ChunkRow {
  std::uint32_t block = 0;  // ids from 64 * block
  std::string frames;
  std::string summaries;
  std::vector<std::string> scores;  // 16 tensors each
  std::uint64_t records = 0;
  // Over all of its records; absmax of stored values divided by their scale.
  std::optional<double> absmax_max;
  std::optional<double> absmax_min;
  std::uint64_t non_finite = 0;
  std::uint64_t subnormal = 0;
  std::uint64_t flushed = 0;
  std::optional<double> min_headroom;
  std::string worst_tensor;  // name of the one with the least headroom
};

// Makes a chunk of its tensors' records. Pure; not thread-safe.
class ChunkBuilder {
 public:
  // `tensors`: at most kChunkTensors; `attempts`: of the stretch's reports.
  ChunkBuilder(std::uint32_t block, std::size_t tensors, std::span<const std::uint64_t> attempts);
  // Once for each tensor. `numel` of one measurement, by the table; `name` by the table too.
  void set(std::size_t tensor, const TensorRows& rows, std::uint64_t numel, std::string_view name);
  // Without records in it there is nothing to write.
  ChunkRow finish();

 private:
  ChunkRow row_;
  const std::size_t reports_;
  std::vector<std::uint8_t> groups_;  // of each report; counted in the stretch
  std::vector<GroupScores> scores_;   // of one tensor
  std::vector<std::string> frames_;
  std::vector<std::string> score_frames_;
  std::vector<TensorSummary> summaries_;
  std::vector<std::uint64_t> numels_;
};

// Where the rows of a stretch belong.
struct StretchPlace {
  std::int64_t stream = 0;
  std::int64_t number = 0;
  std::size_t reports = 0;
  std::uint64_t first = 0;  // attempts
  std::uint64_t last = 0;
};

// These replace what is there.
// The chunk with its scores.
void write_chunk(Connection& writer, const StretchPlace& place, const ChunkRow& chunk);
void write_scores(Connection& writer, const StretchPlace& place, const ChunkRow& chunk);
void write_summary(Connection& writer, const StretchPlace& place, const ChunkRow& chunk);

}  // namespace scalewatch::history
