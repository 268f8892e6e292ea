#include "server/history/closings.h"

#include <set>
#include <string>

#include "server/engine/input_codec.h"

namespace scalewatch::history {

namespace {

// An attempt closes at most 2,000 attempts after its first report (AttemptCloser); other inputs come between, but few.
constexpr std::int64_t kMostInputs = 10'000;

bool tells_of_closing(std::string_view payload) {
  return payload.find("\"attempt_closed\"") != std::string_view::npos ||
         payload.find("\"segment_opened\"") != std::string_view::npos;
}

engine::LoggedInput read_input(const std::string& payload, const Connection& file, std::int64_t run) try {
  return engine::decode_input(payload);
} catch (const std::runtime_error& error) {
  throw engine::StoreError(file.path() + ": run " + std::to_string(run) + ": " + error.what(), false);
}

// Ranks whose first report of the attempt came after `pos`, where it was closed. Those that had not joined, or were silent for
// long, were not waited for, and the closing does not name them.
std::set<std::uint32_t> late_ranks(Connection& file, std::int64_t run, std::uint32_t segment, std::uint64_t attempt,
                                   std::uint64_t pos) {
  Query late(file,
             "SELECT rank FROM reports INDEXED BY reports_by_attempt WHERE run = ? AND segment = ? AND attempt = ? AND "
             "retrospective = 0 GROUP BY rank HAVING min(pos) > ?",
             run, segment, attempt, pos);
  std::set<std::uint32_t> ranks;
  while (late.step()) ranks.insert(late.u32(0));
  return ranks;
}

}  // namespace

std::vector<std::uint32_t> missing_ranks(ReadPool& pool, std::int64_t run, std::uint32_t segment, std::uint64_t attempt) {
  ReadPool::Lease lease(pool);
  Query first(*lease,
              "SELECT min(pos) FROM reports INDEXED BY reports_by_attempt WHERE run = ? AND segment = ? AND attempt = ? AND "
              "retrospective = 0",
              run, segment, attempt);
  if (!first.step() || first.is_null(0)) return {};
  Query inputs(*lease, "SELECT payload, pos FROM inputs WHERE run = ? AND pos > ? ORDER BY pos LIMIT ?", run, first.u64(0),
               kMostInputs);
  while (inputs.step()) {
    const std::string payload = inputs.bytes(0);
    if (!tells_of_closing(payload)) continue;
    const engine::LoggedInput logged = read_input(payload, *lease, run);
    if (std::holds_alternative<domain::SegmentOpened>(logged.input)) return {};
    const auto* closed = std::get_if<domain::AttemptClosed>(&logged.input);
    if (closed == nullptr || closed->attempt < attempt) continue;
    // The report of an older segment may come when a newer one is open already.
    if (closed->attempt > attempt || logged.segment.value_or(segment) != segment) return {};
    std::set<std::uint32_t> missing = late_ranks(*lease, run, segment, attempt, inputs.u64(1));
    missing.insert(closed->missing.begin(), closed->missing.end());
    return {missing.begin(), missing.end()};
  }
  return {};
}

}  // namespace scalewatch::history
