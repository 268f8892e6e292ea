#include "server/history/closings.h"

#include <set>
#include <string>

#include "server/engine/input_codec.h"

namespace scalewatch::history {

namespace {

bool tells_of_closing(std::string_view payload) {
  return payload.find("\"attempt_closed\"") != std::string_view::npos ||
         payload.find("\"segment_opened\"") != std::string_view::npos;
}

}  // namespace

bool Closing::found(const std::string& payload, std::uint64_t pos) {
  if (!tells_of_closing(payload)) return false;
  engine::LoggedInput logged;
  try {
    logged = engine::decode_input(payload);
  } catch (const std::runtime_error& error) {
    throw engine::StoreError(std::string("a closing in the log: ") + error.what(), false);
  }
  if (std::holds_alternative<domain::SegmentOpened>(logged.input)) return true;
  const auto* closed = std::get_if<domain::AttemptClosed>(&logged.input);
  if (closed == nullptr || closed->attempt < attempt_) return false;
  // The report of an older segment may come when a newer one is open already.
  if (closed->attempt > attempt_ || logged.segment.value_or(segment_) != segment_) return true;
  pos_ = pos;
  missing_.insert(closed->missing.begin(), closed->missing.end());
  return true;
}

void Closing::first_report(std::uint32_t rank, std::uint64_t pos) {
  if (pos_ && pos > *pos_) missing_.insert(rank);
}

std::vector<std::uint32_t> missing_ranks(ReadPool& pool, std::int64_t run, std::uint32_t segment, std::uint64_t attempt) {
  ReadPool::Lease lease(pool);
  Query first(*lease,
              "SELECT min(pos) FROM reports INDEXED BY reports_by_attempt WHERE run = ? AND segment = ? AND attempt = ? AND "
              "retrospective = 0",
              run, segment, attempt);
  if (!first.step() || first.is_null(0)) return {};
  Closing closing(segment, attempt);
  {
    Query inputs(*lease, "SELECT payload, pos FROM inputs WHERE run = ? AND pos > ? ORDER BY pos LIMIT ?", run, first.u64(0),
                 static_cast<std::uint64_t>(kMostInputs));
    while (inputs.step()) {
      if (closing.found(inputs.bytes(0), inputs.u64(1))) break;
    }
  }
  Query ranks(
      *lease,
      "SELECT rank, min(pos) FROM reports INDEXED BY reports_by_attempt WHERE run = ? AND segment = ? AND attempt = ? AND "
      "retrospective = 0 GROUP BY rank",
      run, segment, attempt);
  while (ranks.step()) closing.first_report(ranks.u32(0), ranks.u64(1));
  return closing.missing();
}

}  // namespace scalewatch::history
