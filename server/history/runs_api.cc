// Runs: listing, one run's overview, and finding a run by name.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/history/api_impl.h"
#include "server/history/older_answers.h"
#include "server/history/optimizers_reader.h"
#include "server/history/page_token.h"
#include "server/history/run_entry.h"
#include "server/history/wire.h"
#include "server/names/escape.h"
#include "server/names/nearest.h"

namespace scalewatch::history {

namespace {

constexpr char kToken = 'r';
constexpr std::size_t kEntryBytes = 160;  // of a run in an answer, roughly
constexpr int kMaxFindings = 1000;
constexpr int kMaxCompared = 20'000;  // run names that a misspelled one is held against

[[noreturn]] void damaged(const engine::RunRow& row) {
  throw ApiError{
      {engine::Status::kInternal, "the stored overview of run " + row.name + " cannot be read: the history file is damaged"}};
}

// The columns are what lists are sorted by: they win over the overview.
void take_columns(const engine::RunRow& row, v1::RunSummary& run) {
  run.set_run_uid(row.run_uid);
  run.set_name(names::is_utf8(row.name) ? row.name : names::escape(row.name));
  run.set_created_ms(row.created_ms);
  run.set_last_report_ms(row.last_report_ms);
  run.set_segment(row.segment);
  run.set_status(static_cast<v1::RunStatus>(row.status));
  run.set_worst_open(static_cast<v1::Severity>(row.worst_open));
}

v1::GetRunResponse overview_of(const engine::RunRow& row) {
  v1::GetRunResponse overview;
  if (!overview.ParseFromString(row.overview)) damaged(row);
  take_columns(row, *overview.mutable_run());
  return overview;
}

}  // namespace

std::unique_ptr<engine::HistoryApi> make_history_api(SqliteStore& store, const ApiLimits& limits, OlderHistory* older) {
  return std::make_unique<Api>(store, limits, older);
}

engine::Status Api::encode_runs(const v1::ListRunsRequest& request, std::string& answer) {
  return guard(answer, [&] { do_encode_runs(request, answer); });
}

engine::Status Api::list_runs(const v1::ListRunsRequest& request, v1::ListRunsResponse& response) {
  return guard_decoded(response, [&](std::string& answer) { do_encode_runs(request, answer); });
}

engine::Status Api::get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response) {
  return guard(response, [&] { do_get_run(request, response); });
}

void Api::do_encode_runs(const v1::ListRunsRequest& request, std::string& answer) {
  const std::size_t size = checked_page_size(request.page_size());
  const auto token = read_token(request.page_token(), kToken, 3);
  // Only what is asked for, for it is looked at in every row.
  std::string filter;
  if (request.min_severity() != v1::SEVERITY_UNSPECIFIED) filter += " AND worst_open >= ?1";
  if (!request.name_contains().empty()) filter += " AND instr(name, ?2) > 0";
  if (request.has_status()) filter += " AND status = ?3";
  // The order is (worst_open down, last_report_ms down, id up). A page goes on behind a run by a seek each: one condition for
  // all three would walk over the pages before.
  std::vector<std::string> parts{""};
  if (!token.empty()) {
    parts = {" AND worst_open = ?4 AND last_report_ms = ?5 AND id > ?6", " AND worst_open = ?4 AND last_report_ms < ?5",
             " AND worst_open < ?4"};
  }
  const auto place = [&](std::size_t field) { return token.empty() ? 0 : token_number(token[field]); };
  ReadPool::Lease lease(pool_);
  std::size_t count = 0;
  std::string entry;
  answer.reserve(size * kEntryBytes);
  std::vector<std::string> last;  // of the newest entry, what goes on behind it
  for (const auto& part : parts) {
    Query query(
        *lease, select_runs("WHERE TRUE" + filter + part + " ORDER BY worst_open DESC, last_report_ms DESC, id LIMIT ?7"),
        static_cast<std::int64_t>(request.min_severity()), request.name_contains(), static_cast<std::int64_t>(request.status()),
        place(0), place(1), place(2), static_cast<std::int64_t>(size + 1 - count));
    while (query.step()) {
      if (count == size) {
        wire::put_bytes(v1::ListRunsResponse::kNextPageTokenFieldNumber, make_token(kToken, last), answer);
        return;
      }
      encode_run(query, entry);
      wire::put_bytes(v1::ListRunsResponse::kRunsFieldNumber, entry, answer);
      if (++count == size) last = {query.bytes(7), query.bytes(4), query.bytes(0)};
    }
  }
}

void Api::do_get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response) {
  // All of one moment: between two, an alert could change its state and be in neither list, or in both.
  std::optional<ReadPool::Lease> lease(std::in_place, pool_);
  std::optional<StoredRun> found = find_stored_run(**lease, request.run());
  if (!found || found->id == store_.retention().removing()) {
    lease.reset();  // one at a time
    found = run_named(request.run());
    lease.emplace(pool_);
  }
  const StoredRun& run = *found;
  response = overview_of(run.row);
  response.clear_findings();
  const auto add = [&](std::vector<std::int32_t> states) {
    const engine::AlertReader::Filter filter{run.row.run_uid, std::move(states), 0};
    for (const auto& row :
         list_alerts(**lease, filter, std::nullopt, static_cast<std::size_t>(kMaxFindings - response.findings_size()))) {
      v1::Alert alert;
      if (!alert.ParseFromString(row.alert)) continue;  // damaged: verify tells; the others are worth showing
      *response.add_findings() = std::move(*alert.mutable_finding());
    }
  };
  add({v1::ALERT_STATE_UNSPECIFIED, v1::ALERT_STATE_PENDING, v1::ALERT_STATE_FIRING, v1::ALERT_STATE_ACKNOWLEDGED,
       v1::ALERT_STATE_SILENCED});
  add({v1::ALERT_STATE_RESOLVED});
  read_optimizers(**lease, run.id, run.row.segment, response);
}

StoredRun Api::run_named(const std::string& name_or_uid) {
  if (name_or_uid.empty()) invalid("run", "is empty; give a run's name or run_uid");
  ReadPool::Lease lease(pool_);
  if (auto run = find_stored_run(*lease, name_or_uid)) {
    if (run->id != store_.retention().removing()) return std::move(*run);
    throw ApiError{{engine::Status::kNotFound, "run \"" + name_or_uid + "\" is being removed: its time is over"}};
  }
  names::NearestNames nearest(name_or_uid);
  Query names(*lease, "SELECT name FROM runs ORDER BY name LIMIT ?", kMaxCompared);
  bool any = false;
  while (!lease.page_over() && names.step()) {
    nearest.offer(names.bytes(0));
    any = true;
  }
  throw ApiError{{engine::Status::kNotFound,
                  "unknown run \"" + name_or_uid + "\"" + (any ? nearest.text() : std::string("; no run is stored yet"))}};
}

std::uint32_t Api::checked_segment(const StoredRun& run, std::uint32_t segment, const char* field) {
  if (segment > run.row.segment) {
    invalid(field, std::to_string(segment) + " does not exist; the newest segment of run " + run.row.name + " is " +
                       std::to_string(run.row.segment));
  }
  return segment == 0 ? run.row.segment : segment;
}

std::optional<Api::Span> Api::span_of(Reading& reading, const StoredRun& run, const v1::AttemptRange& range) {
  if (range.last() != 0 && range.first() > range.last()) {
    invalid("range",
            "first (" + std::to_string(range.first()) + ") is larger than last (" + std::to_string(range.last()) + ")");
  }
  Span span{checked_segment(run, range.segment(), "range.segment"), 0, 0};
  const auto bounds = bounds_of(reading, pool_, run.id, span.segment);
  if (!bounds) return std::nullopt;
  span.first = std::max(range.first(), bounds->first);
  span.last = range.last() == 0 ? bounds->last : std::min(range.last(), bounds->last);
  if (span.first > span.last) return std::nullopt;
  return span;
}

}  // namespace scalewatch::history
