// When attempts happened, for rows whose axis is time: history is keyed by attempts and keeps one time for each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/ports/read_api.h"

namespace scalewatch::http {

// Times of one run's segment. Reads a few attempts and draws straight lines between them, so that a thousand rows cost no
// thousand reads. Not thread-safe; lives as long as one request.
class AttemptTimes {
 public:
  AttemptTimes(engine::HistoryApi& history, std::string run) : history_(history), run_(std::move(run)) {}

  // Learns the segment's newest attempt; segment 0 = the newest one. kNotFound when the run is unknown.
  engine::Status open(std::uint32_t segment);

  [[nodiscard]] bool empty() const { return newest_ == 0; }         // nothing is stored of the segment
  [[nodiscard]] std::uint64_t newest() const { return newest_; }    // attempt
  [[nodiscard]] std::uint32_t segment() const { return segment_; }  // from 1

  // Whether all that was asked for since could be read; when it could not, nothing else is to be believed.
  [[nodiscard]] const engine::Status& status() const { return status_; }

  // The first attempt at or after a time (Unix milliseconds); absent when all are before it.
  std::optional<std::uint64_t> first_since(std::int64_t time_ms);

  // Reads what at() needs for attempts from first to last.
  void learn(std::uint64_t first, std::uint64_t last);

  // Unix milliseconds, rising with the attempt, by what learn() read.
  [[nodiscard]] std::int64_t at(std::uint64_t attempt) const;

 private:
  struct Knot {
    std::uint64_t attempt = 0;
    std::int64_t time_ms = 0;
  };
  // The first stored attempt from this one on; none after a failure.
  std::optional<Knot> read(std::uint64_t attempt);

  engine::HistoryApi& history_;
  std::string run_;
  std::uint32_t segment_ = 0;
  std::uint64_t newest_ = 0;
  engine::Status status_;
  std::vector<Knot> knots_;  // by attempt, distinct
};

}  // namespace scalewatch::http
