#include "server/http/attempt_times.h"

#include <algorithm>

#include "server/http/ask.h"

namespace scalewatch::http {
namespace {

constexpr std::uint64_t kKnots = 32;  // read for one request

}  // namespace

engine::Status AttemptTimes::open(std::uint32_t segment) {
  v1::GetAttemptRequest request;
  request.set_run(run_);
  request.set_segment(segment);
  request.set_summary_only(true);
  v1::GetAttemptResponse response;
  const engine::Status status = ask(history_, &engine::HistoryApi::get_attempt, request, response);
  if (status.ok()) {
    segment_ = response.attempt().segment();
    newest_ = response.attempt().attempt();
  }
  return status;
}

std::optional<AttemptTimes::Knot> AttemptTimes::read(std::uint64_t attempt) {
  v1::GetAttemptRequest request;
  request.set_run(run_);
  request.set_segment(segment_);
  request.set_attempt(attempt);
  request.set_summary_only(true);
  request.set_or_next(true);
  v1::GetAttemptResponse response;
  if (!status_.ok()) return std::nullopt;
  const engine::Status status = ask(history_, &engine::HistoryApi::get_attempt, request, response);
  if (!status.ok() && status.code != engine::Status::kNotFound) status_ = status;
  if (!status.ok()) return std::nullopt;
  return Knot{response.attempt().attempt(), response.attempt().time_ms()};
}

std::optional<std::uint64_t> AttemptTimes::first_since(std::int64_t time_ms) {
  const auto newest = read(newest_);
  if (!newest || newest->time_ms < time_ms) return std::nullopt;
  std::uint64_t low = 1;  // all before it are too early
  std::uint64_t high = newest_;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const auto knot = read(middle);
    if (knot && knot->time_ms < time_ms) {
      low = std::max(knot->attempt, middle) + 1;
    } else {
      high = middle;
    }
  }
  return std::min(low, newest_);
}

void AttemptTimes::learn(std::uint64_t first, std::uint64_t last) {
  last = std::min(last, newest_);
  if (first > last) return;
  const std::uint64_t pieces = std::min<std::uint64_t>(kKnots - 1, last - first);
  for (std::uint64_t i = 0; i <= pieces; ++i) {
    const std::uint64_t attempt =
        pieces == 0 ? first : first + (last - first) / pieces * i + (last - first) % pieces * i / pieces;
    if (!knots_.empty() && knots_.back().attempt >= attempt) continue;  // a gap led past it
    if (const auto knot = read(attempt)) knots_.push_back(*knot);
  }
  // A clock that was set back must not make time fall.
  for (std::size_t i = 1; i < knots_.size(); ++i) knots_[i].time_ms = std::max(knots_[i].time_ms, knots_[i - 1].time_ms);
}

std::int64_t AttemptTimes::at(std::uint64_t attempt) const {
  if (knots_.empty()) return 0;
  const auto after = std::lower_bound(knots_.begin(), knots_.end(), attempt,
                                      [](const Knot& knot, std::uint64_t wanted) { return knot.attempt < wanted; });
  if (after == knots_.begin()) return after->time_ms;
  const Knot& before = *(after - 1);
  if (after == knots_.end()) return before.time_ms;
  const double share = static_cast<double>(attempt - before.attempt) / static_cast<double>(after->attempt - before.attempt);
  return before.time_ms + static_cast<std::int64_t>(share * static_cast<double>(after->time_ms - before.time_ms));
}

}  // namespace scalewatch::http
