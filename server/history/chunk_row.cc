#include "server/history/chunk_row.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/history/keys.h"

namespace scalewatch::history {

ChunkBuilder::ChunkBuilder(std::uint32_t block, std::size_t tensors, std::span<const std::uint64_t> attempts)
    : reports_(attempts.size()), frames_(tensors), score_frames_(tensors), summaries_(tensors), numels_(tensors) {
  row_.block = block;
  std::uint8_t group = 0;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    if (i > 0 && group_of(attempts[i]) != group_of(attempts[i - 1])) ++group;
    groups_.push_back(group);
  }
}

void ChunkBuilder::set(std::size_t tensor, const TensorRows& rows, std::uint64_t numel, std::string_view name) {
  numels_[tensor] = numel;
  TensorSummary& summary = summaries_[tensor];
  scores_.assign(groups_.back() + std::size_t{1}, GroupScores{});
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const Measured& measured = rows.rows[i];
    summary.add_total(rows.places[i], measured);
    scores_[groups_[rows.places[i]]].add(measured);
    if (const float absmax = measured.record.absmax(); !std::isnan(absmax)) {
      const double unscaled = absmax / measured.scale;
      row_.absmax_max = std::max(row_.absmax_max.value_or(unscaled), unscaled);
      row_.absmax_min = std::min(row_.absmax_min.value_or(unscaled), unscaled);
    }
  }
  GroupScores all;
  for (const auto& group : scores_) all.add(group);
  summary.headroom = all.headroom();
  summary.norm = std::isnan(all.norm) ? 0 : all.norm;
  summary.underflow = std::isnan(all.underflow) ? 0 : all.underflow;
  write_frame(rows, reports_, numel, frames_[tensor]);
  if (summary.records > 0) write_scores(scores_, score_frames_[tensor]);
  const Record& total = summary.total.record;
  row_.records += summary.records;
  row_.non_finite += total.non_finite();
  row_.subnormal += total.subnormal;
  row_.flushed += total.flushed;
  if (summary.headroom && (!row_.min_headroom || *summary.headroom < *row_.min_headroom)) {
    row_.min_headroom = summary.headroom;
    row_.worst_tensor = name;
  }
}

ChunkRow ChunkBuilder::finish() {
  if (row_.records > 0) {
    row_.frames = join_frames(frames_);
    row_.summaries = write_summaries(summaries_, reports_, numels_);
    const std::span<const std::string> frames(score_frames_);
    for (std::size_t i = 0; i < frames.size(); i += kScoreTensors) {
      row_.scores.push_back(join_frames(frames.subspan(i, std::min<std::size_t>(kScoreTensors, frames.size() - i))));
    }
  }
  return std::move(row_);
}

void write_chunk(Connection& writer, const StretchPlace& place, const ChunkRow& chunk) {
  Query(writer, "INSERT OR REPLACE INTO chunks (id, frames) VALUES (?, ?)", chunk_key(place.stream, place.number, chunk.block),
        Blob{chunk.frames})
      .run();
  write_scores(writer, place, chunk);
}

void write_scores(Connection& writer, const StretchPlace& place, const ChunkRow& chunk) {
  for (std::size_t i = 0; i < chunk.scores.size(); ++i) {
    const std::uint32_t id = chunk.block * kChunkTensors + static_cast<std::uint32_t>(i) * kScoreTensors;
    if (id > kMaxScored) break;
    Query(writer, "INSERT OR REPLACE INTO scores (id, frames) VALUES (?, ?)", scores_key(place.stream, place.number, id),
          Blob{chunk.scores[i]})
        .run();
  }
}

void write_summary(Connection& writer, const StretchPlace& place, const ChunkRow& chunk) {
  Query(writer,
        "INSERT OR REPLACE INTO summaries (id, first_attempt, last_attempt, reports, records, absmax_max, absmax_min, "
        "non_finite, subnormal, flushed, min_headroom, worst_tensor, tensors) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        summary_key(place.stream, chunk.block, place.number), place.first, place.last, place.reports, chunk.records,
        chunk.absmax_max, chunk.absmax_min, chunk.non_finite, chunk.subnormal, chunk.flushed, chunk.min_headroom,
        chunk.worst_tensor, Blob{chunk.summaries})
      .run();
}

}  // namespace scalewatch::history
