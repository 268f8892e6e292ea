#include "server/history/older_answers.h"

#include <algorithm>
#include <limits>

#include "server/history/closings.h"
#include "server/history/older_reading.h"

namespace scalewatch::history {

namespace {

constexpr std::uint64_t kLastAttempt = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kPageScalers = 100'000;
constexpr std::size_t kPageInputs = 64;
constexpr std::size_t kMostScalers = 64;  // of an attempt
constexpr std::size_t kMostRows = 1'000'000;

using Pair = std::optional<std::pair<std::uint64_t, std::uint64_t>>;

// Asks of what is older; says what can be asked all the same when it can't be reached.
template <class Ask>
auto ask_older(Reading& reading, const OlderReading& older, const Ask& ask) {
  reading.pause();
  try {
    return ask();
  } catch (const engine::StoreError& error) {
    throw engine::StoreError(std::string(error.what()) + "; attempts from " + std::to_string(older.floor()) + " on are here",
                             error.retryable);
  }
}

Pair older_bounds(Reading& reading, const OlderReading& older, std::uint64_t first, std::uint64_t last) {
  return ask_older(reading, older, [&] { return older.bounds(first, last); });
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

std::optional<std::uint64_t> newest_attempt(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment) {
  const OlderReading* const older = reading.older(run, segment);
  reading.pause();
  const auto local = attempt_bounds(pool, run, segment);
  if (local && (older == nullptr || local->last >= older->floor())) return local->last;
  const auto bounds = bounds_of(reading, pool, run, segment);
  if (!bounds) return std::nullopt;
  return bounds->last;
}

std::optional<std::uint64_t> next_attempt(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment,
                                          std::uint64_t attempt) {
  const OlderReading* const older = reading.older(run, segment);
  reading.pause();
  if (older != nullptr && attempt < older->floor()) {
    if (const auto found = ask_older(reading, *older, [&] { return older->next(attempt); })) return found;
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
      const auto rows = older->history().scalers(older->range(first, last, range.rank), range.scaler, kPageScalers);
      for (const auto& found : rows) sink.attempt(found.row);
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
  for (const auto& found : older->history().scalers(range, {}, kMostScalers)) {
    auto& point = points.emplace_back();
    point.set_scaler(found.scaler);
    add_to_point(found.row, point);
  }
  return points;
}

std::vector<std::uint32_t> missing_ranks(Reading& reading, ReadPool& pool, std::int64_t run, std::uint32_t segment,
                                         std::uint64_t attempt) {
  OlderReading* const older = reading.older(run, segment);
  reading.pause();
  if (older == nullptr || attempt >= older->floor()) return missing_ranks(pool, run, segment, attempt);
  const OlderRange range = older->range(attempt, attempt);
  auto places = older->history().places(range, kMostRows);
  std::erase_if(places, [](const auto& place) { return place.pos == kNoPlace; });
  if (places.empty()) return {};
  const auto by_pos = [](const auto& a, const auto& b) { return a.pos < b.pos; };
  std::uint64_t after = std::min_element(places.begin(), places.end(), by_pos)->pos;
  Closing closing(segment, attempt);
  bool found = false;
  for (std::size_t seen = 0; !found && seen < kMostInputs; seen += kPageInputs) {
    const auto page = older->history().inputs(range.run_uid, after, kPageInputs);
    for (auto input = page.begin(); !found && input != page.end(); ++input) found = closing.found(input->payload, input->pos);
    if (page.size() < kPageInputs) break;
    after = page.back().pos;
  }
  for (const auto& place : places) closing.first_report(place.rank, place.pos);
  return closing.missing();
}

}  // namespace scalewatch::history
