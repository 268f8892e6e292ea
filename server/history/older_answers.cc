#include "server/history/older_answers.h"

#include <algorithm>
#include <limits>

#include "server/history/closings.h"
#include "server/history/older_reading.h"

namespace scalewatch::history {

namespace {

constexpr std::uint64_t kLastAttempt = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kPageScalers = 100'000;

using Pair = std::optional<std::pair<std::uint64_t, std::uint64_t>>;

// Bounds of what is older; says what can be asked all the same when it can't be reached.
Pair older_bounds(Reading& reading, const OlderReading& older, std::uint64_t first, std::uint64_t last) {
  reading.pause();
  try {
    return older.bounds(first, last);
  } catch (const engine::StoreError& error) {
    throw engine::StoreError(std::string(error.what()) + "; attempts from " + std::to_string(older.floor()) + " on are here",
                             error.retryable);
  }
}

}  // namespace

std::optional<AttemptBounds> bounds_of(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment) {
  const OlderReading* const older = reading.older(run, segment);
  reading.pause();
  const auto local = attempt_bounds(pool, run, segment);
  if (older == nullptr) return local;
  const Pair before = older_bounds(reading, *older, 0, kLastAttempt);
  if (!before) return local;
  return AttemptBounds{local ? std::min(local->first, before->first) : before->first,
                       local ? std::max(local->last, before->second) : before->second};
}

std::optional<std::uint64_t> next_attempt(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment,
                                          std::uint64_t attempt) {
  const OlderReading* const older = reading.older(run, segment);
  reading.pause();
  if (older != nullptr && attempt < older->floor()) {
    if (const Pair found = older_bounds(reading, *older, attempt, kLastAttempt)) return found->first;
  }
  return attempt_from(pool, run, segment, attempt);
}

std::optional<std::uint64_t> last_attempt_before(Reading& reading, std::int64_t run, std::uint32_t segment,
                                                 std::uint64_t attempt) {
  const OlderReading* const older = reading.older(run, segment);
  const auto local = attempt_before(reading.connection(), run, segment, attempt);
  if (older == nullptr || (local && *local >= older->floor()) || attempt == 0) return local;
  const Pair found = older_bounds(reading, *older, 0, attempt - 1);
  if (!found) return local;
  return std::max(local.value_or(0), found->second);
}

std::optional<std::uint64_t> read_scaler(Reading& reading, ReadPool& pool, const ScalerRange& range,
                                         std::chrono::steady_clock::time_point deadline, ScalerSink& sink) {
  OlderReading* const older = reading.older(range.run, range.segment);
  reading.pause();
  ScalerRange local = range;
  if (older != nullptr && range.first < older->floor()) {
    const std::uint64_t last = std::min(range.last, older->floor() - 1);
    for (std::uint64_t first = range.first; first <= last;) {
      const auto rows = older->history().scaler(older->range(first, last, range.rank), range.scaler, kPageScalers);
      for (const auto& row : rows) sink.attempt(row);
      if (rows.empty()) break;
      first = rows.back().attempt + 1;
      if (std::chrono::steady_clock::now() >= deadline) return first;
    }
    if (last == range.last) return std::nullopt;
    local.first = last + 1;
  }
  return read_scaler(pool, local, deadline, sink);
}

std::vector<v1::ScalerPoint> scalers_at(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment,
                                        std::uint64_t attempt, std::optional<std::uint32_t> rank) {
  OlderReading* const older = reading.older(run, segment);
  reading.pause();
  if (older == nullptr || attempt >= older->floor()) return scalers_at(pool, run, segment, attempt, rank);
  const OlderRange range = older->range(attempt, attempt, rank);
  std::vector<v1::ScalerPoint> points;
  for (const std::uint32_t scaler : older->history().scaler_numbers(range.run_uid, segment)) {
    for (const auto& row : older->history().scaler(range, scaler, 1)) {
      auto& point = points.emplace_back();
      point.set_scaler(scaler);
      add_to_point(row, point);
    }
  }
  return points;
}

std::vector<std::uint32_t> missing_ranks(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment,
                                         std::uint64_t attempt) {
  OlderReading* const older = reading.older(run, segment);
  reading.pause();
  if (older == nullptr || attempt >= older->floor()) return missing_ranks(pool, run, segment, attempt);
  constexpr std::size_t kMostRanks = 1'000'000;
  const OlderRange range = older->range(attempt, attempt);
  std::map<std::uint32_t, std::uint64_t> first_pos;  // by rank
  for (const auto& report : older->history().reports(range, kMostRanks)) {
    if (report.retrospective) continue;
    std::uint64_t& pos = first_pos.try_emplace(report.key.rank, report.pos).first->second;
    pos = std::min(pos, report.pos);
  }
  if (first_pos.empty()) return {};
  std::uint64_t after = UINT64_MAX;
  for (const auto& [rank, pos] : first_pos) after = std::min(after, pos);
  Closing closing(segment, attempt);
  for (const auto& input : older->history().inputs(range.run_uid, after, kMostInputs)) {
    if (closing.found(input.payload, input.pos)) break;
  }
  for (const auto& [rank, pos] : first_pos) closing.first_report(rank, pos);
  return closing.missing();
}

}  // namespace scalewatch::history
