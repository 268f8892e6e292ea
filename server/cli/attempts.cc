#include "server/cli/attempts.h"

#include <algorithm>
#include <utility>

#include "server/cli/paging.h"
#include "server/cli/progress.h"

namespace scalewatch::cli {

namespace {

// The answer, or absent behind the last attempt.
std::optional<v1::GetAttemptResponse> get(Client& client, const v1::GetAttemptRequest& request) {
  try {
    return client.get_attempt(request);
  } catch (const CallError& error) {
    if (!error.not_found()) throw;
    return std::nullopt;
  }
}

}  // namespace

std::uint64_t walk_attempts(Client& client, const AttemptWalk& walk, const Screen& screen,
                            const std::function<bool(const v1::GetAttemptResponse&, bool first_page)>& visit) {
  v1::GetRunRequest probe;  // an unknown run is an error, an empty one is not
  probe.set_run(walk.run);
  const auto run = client.get_run(probe);
  v1::GetAttemptRequest request;
  request.set_run(run.run().run_uid());
  request.set_segment(walk.range.segment == 0 ? run.run().segment() : walk.range.segment);
  request.set_page_size(static_cast<std::int32_t>(kMaxPage));
  request.set_or_next(true);
  request.set_summary_only(!walk.tensors);
  request.set_octaves(walk.octaves);
  if (walk.rank) request.set_rank(*walk.rank);
  const auto newest = newest_attempt(client, request.run(), request.segment());
  if (!newest) return 0;
  const std::uint64_t last = walk.range.last == 0 ? newest->attempt() : std::min(walk.range.last, newest->attempt());
  const std::uint64_t begin = std::max<std::uint64_t>(1, walk.range.first);
  Progress progress(walk.doing, "attempt", last >= begin ? last - begin + 1 : 0, screen);
  std::uint64_t attempts = 0;
  for (std::uint64_t next = begin; next <= last;) {
    request.set_attempt(next);
    request.clear_page_token();
    auto page = get(client, request);
    // A rank may lack the attempt that others have; an older server knows no gaps.
    if (!page) {
      if (!walk.rank) break;
      ++next;
      continue;
    }
    const std::uint64_t attempt = page->attempt().attempt();
    if (attempt > last || attempt < next) break;
    ++attempts;
    progress.at(attempt - begin + 1);
    for (bool first = true;; first = false) {
      if (!visit(*page, first)) return attempts;
      if (page->next_page_token().empty()) break;
      request.set_page_token(page->next_page_token());
      page = get(client, request);
      if (!page) break;
    }
    next = attempt + 1;
  }
  return attempts;
}

v1::GetAttemptResponse read_attempt(Client& client, v1::GetAttemptRequest request) {
  v1::AttemptSummary summary;
  auto all = read_pages<v1::GetAttemptResponse>(
      std::move(request), kMaxItems,
      [&](const v1::GetAttemptRequest& r) {
        auto page = client.get_attempt(r);
        summary = page.attempt();
        return page;
      },
      [](v1::GetAttemptResponse& r) { return r.mutable_tensors(); });
  *all.mutable_attempt() = std::move(summary);
  return all;
}

std::optional<v1::AttemptSummary> newest_attempt(Client& client, const std::string& run, std::uint32_t segment) {
  v1::GetAttemptRequest request;
  request.set_run(run);
  request.set_segment(segment);
  request.set_page_size(1);
  request.set_summary_only(true);
  const auto answer = get(client, request);
  if (!answer) return std::nullopt;
  return answer->attempt();
}

std::optional<RangeOptions> closed_range(Client& client, const std::string& run, const RangeOptions& range,
                                         std::uint64_t most) {
  v1::GetRunRequest probe;
  probe.set_run(run);
  client.get_run(probe);
  RangeOptions out = range;
  const auto newest = newest_attempt(client, run, range.segment);
  if (!newest) return std::nullopt;
  out.segment = newest->segment();
  if (out.last == 0 || out.last > newest->attempt()) out.last = newest->attempt();
  if (out.first == 0) out.first = out.last >= most ? out.last - most + 1 : 1;
  if (out.first > out.last) return std::nullopt;
  return out;
}

std::string_view outcome_word(const v1::AttemptSummary& attempt) {
  std::uint64_t applied = 0;
  std::uint64_t skipped = 0;
  std::uint64_t partial = 0;
  for (const auto& scaler : attempt.scalers()) {
    applied += scaler.applied();
    skipped += scaler.skipped();
    partial += scaler.partial();
  }
  if (partial > 0 || (applied > 0 && skipped > 0)) return "partial";
  if (skipped > 0) return "skipped";
  return applied > 0 ? "applied" : "-";
}

}  // namespace scalewatch::cli
