#include "server/history/clickhouse/older.h"

#include <algorithm>

#include "server/history/clickhouse/byte_lanes.h"
#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/native.h"
#include "server/history/clickhouse/older_pages.h"
#include "server/history/clickhouse/older_sql.h"
#include "server/history/clickhouse/score_rows.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::size_t kIdleConnections = 4;
// A question must not keep people waiting as long as a batch may take.
constexpr std::chrono::milliseconds kPatience{20'000};

// A question's first attempts.
constexpr double kFewAttempts = 32;
constexpr double kManyAttempts = 8192;  // of what few rows are of

// Reports of a condition, each once: as its latest owner has it. Around it goes what cuts a page: within it each shard would
// cut its own before rows that are there twice are dropped, here and wherever there is LIMIT BY.
std::string newest_reports(const std::string& columns, const std::string& condition) {
  return "SELECT " + columns + " FROM reports WHERE " + condition +
         " ORDER BY rank, stream, seq, term DESC LIMIT 1 BY rank, stream, seq";
}

}  // namespace

Older::Older(const Options& options) : options_(options) {}

std::string Older::query(const std::string& sql) {
  std::unique_ptr<Connection> connection;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!connection) connection = std::make_unique<Connection>(options_);
  std::string answer = connection->query(sql + " FORMAT RowBinary", std::min(kPatience, options_.timeout));
  std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleConnections) idle_.push_back(std::move(connection));
  return answer;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> Older::bounds(const history::OlderRange& range) {
  const std::string answer = query("SELECT count(), min(attempt), max(attempt) FROM reports WHERE " + where(range));
  RowReader row(answer);
  if (row.u64() == 0) return std::nullopt;
  const std::uint64_t first = row.u64();
  return std::pair{first, row.u64()};
}

std::vector<history::OlderPlace> Older::places(const history::OlderRange& asked, std::size_t limit) {
  history::OlderRange range = asked;
  return paged<history::OlderPlace>(
      asked.first, asked.last, limit, kFewAttempts, [&](auto first, auto last, auto most, auto& places) {
        range.first = first;
        range.last = last;
        const std::string answer =
            query("SELECT attempt, rank, min(if(retrospective = 1, " + std::to_string(history::kNoPlace) + ", pos)) FROM (" +
                  newest_reports("attempt, rank, pos, retrospective", where(range)) +
                  ") GROUP BY attempt, rank ORDER BY attempt, rank" + limited(most));
        for (RowReader rows(answer); !rows.done();) {
          auto& place = places.emplace_back();
          place.attempt = rows.u64();
          place.rank = rows.u32();
          place.pos = rows.u64();
        }
      });
}

std::vector<history::OlderReport> Older::reports(const history::OlderRange& asked, std::size_t limit) {
  history::OlderRange range = asked;
  range.each.clear();
  return paged<history::OlderReport>(asked.first, asked.last, limit, kFewAttempts,
                                     [&](auto first, auto last, auto most, auto& reports) {
                                       range.first = first;
                                       range.last = last;
                                       read_reports(range, most, reports);
                                     });
}

void Older::read_reports(const history::OlderRange& range, std::size_t limit, std::vector<history::OlderReport>& reports) {
  const std::string answer =
      query("SELECT rank, stream, seq, pos, attempt, step, time_ms, retrospective, loss, lr, grad_norm, records, rest FROM (" +
            newest_reports("*", where(range) + (range.with_records ? " AND records > 0" : "")) +
            ") ORDER BY attempt, rank, pos" + limited(limit));
  for (RowReader rows(answer); !rows.done();) {
    auto& report = reports.emplace_back();
    report.key.rank = rows.u32();
    report.key.stream = rows.u64();
    report.key.seq = rows.u64();
    report.pos = rows.u64();
    report.attempt = rows.u64();
    report.step = rows.i64();
    report.time_ms = rows.i64();
    report.retrospective = rows.get<std::uint8_t>() != 0;
    report.loss = rows.maybe<double>();
    report.lr = rows.maybe<double>();
    report.grad_norm = rows.maybe<double>();
    if (const std::uint32_t records = rows.u32(); records != kUnscored) report.records = records;
    report.rest = rows.text();
  }
}

std::map<history::OlderKey, std::string> Older::payloads(const std::string& run_uid,
                                                         const std::vector<history::OlderReport>& reports) {
  std::map<history::OlderKey, std::uint64_t> places;
  std::string numbers;
  for (const auto& report : reports) {
    places[report.key] = report.pos;
    numbers += (numbers.empty() ? "" : ",") + std::to_string(report.pos);
  }
  std::map<history::OlderKey, std::string> found;
  if (numbers.empty()) return found;
  std::map<history::OlderKey, std::uint64_t> terms;
  const std::string answer = query("SELECT rank, stream, seq, pos, term, payload, lanes FROM payloads WHERE run = " +
                                   std::to_string(run_key(run_uid)) + " AND pos IN (" + numbers + ")");
  for (RowReader rows(answer); !rows.done();) {
    history::OlderKey key;
    key.rank = rows.u32();
    key.stream = rows.u64();
    key.seq = rows.u64();
    const std::uint64_t pos = rows.u64();
    const std::uint64_t term = rows.u64();
    std::string payload = read_payload(rows);
    // A place may be another report's under another owner, and a report may be in two places: what the latest made of it
    // counts.
    const auto place = places.find(key);
    if (place == places.end() || place->second != pos) continue;
    const auto [known, is_new] = terms.try_emplace(key, term);
    if (!is_new && known->second >= term) continue;
    known->second = term;
    found[key] = std::move(payload);
  }
  return found;
}

std::vector<history::OlderRecord> Older::records(const history::OlderRange& range, const Tensors& tensors, std::size_t limit) {
  const std::string answer = query(
      "SELECT rank, stream, seq, attempt, id, retrospective, numel, nans, pos_inf, neg_inf, zero, subnormal, flushed, over, "
      "min, max, "
      "absmin_nonzero, sum, sum_sq, measured_under_scale, target, micro_batches, first_bad_micro FROM records WHERE " +
      where(range) + are_named(range, tensors, "attempt", [](auto attempt) { return attempt; }) +
      " ORDER BY attempt, rank, retrospective, stream, seq, id" + limited(limit));
  constexpr std::size_t kRowBytes = 4 + 8 + 8 + 8 + 4 + 1 + 8 * 8 + 3 * 4 + 3 * 8 + 1 + 4 + 4;
  std::vector<history::OlderRecord> records;
  records.reserve(answer.size() / kRowBytes);
  for (RowReader rows(answer); !rows.done();) {
    history::OlderRecord row;
    row.key.rank = rows.u32();
    row.key.stream = rows.u64();
    row.key.seq = rows.u64();
    row.attempt = rows.u64();
    row.id = rows.u32();
    row.retrospective = rows.get<std::uint8_t>() != 0;
    Record& record = row.measured.record;
    record.numel = rows.u64();
    record.nan = rows.u64();
    record.pos_inf = rows.u64();
    record.neg_inf = rows.u64();
    record.zero = rows.u64();
    record.subnormal = rows.u64();
    record.flushed = rows.u64();
    record.over = rows.u64();
    record.min = rows.get<float>();
    record.max = rows.get<float>();
    record.absmin_nonzero = rows.get<float>();
    record.sum = rows.get<double>();
    record.sum_sq = rows.get<double>();
    row.measured.scale = rows.get<double>();
    row.measured.target = static_cast<DType>(rows.get<std::uint8_t>());
    row.measured.micro_batches = rows.u32();
    if (const std::uint32_t bad = rows.u32(); bad > 0) row.measured.first_bad_micro = bad - 1;
    // A batch that was sent twice may be there twice until ClickHouse merges its parts.
    if (!records.empty() && records.back().key == row.key && records.back().id == row.id) continue;
    records.push_back(row);
  }
  // The limit counts rows, doubled ones too: who asks must not take fewer for the end.
  if (answer.size() / kRowBytes >= limit && records.size() < limit && !records.empty()) {
    return this->records(range, tensors, limit * 2);
  }
  return records;
}

// Which of two owners' rows counts only the report tells that they are of.
std::vector<history::OlderScaler> Older::scalers(const history::OlderRange& asked, std::optional<std::uint32_t> scaler,
                                                 std::size_t limit) {
  const bool several = owners(asked.run_uid).several;
  history::OlderRange range = asked;
  return paged<history::OlderScaler>(
      asked.first, asked.last, limit, kManyAttempts, [&](auto first, auto last, auto most, auto& scalers) {
        range.first = first;
        range.last = last;
        const std::string answer = query(
            "SELECT * FROM (SELECT attempt, scaler, rank, step, scale_before, scale_after, growth_tracker, outcome, loss FROM "
            "scalers WHERE " +
            where(range) + (scaler ? " AND scaler = " + std::to_string(*scaler) : "") +
            (several ? " AND (attempt, rank, pos) GLOBAL IN (SELECT attempt, rank, pos FROM (" +
                           newest_reports("attempt, rank, pos", where(range)) + "))"
                     : "") +
            " ORDER BY attempt, scaler, rank, pos DESC LIMIT 1 BY attempt, scaler) ORDER BY attempt, scaler" + limited(most));
        for (RowReader rows(answer); !rows.done();) {
          auto& found = scalers.emplace_back();
          history::StoredScaler& row = found.row;
          row.attempt = found.attempt = rows.u64();
          found.scaler = rows.u32();
          row.rank = rows.u32();
          row.step = rows.i64();
          row.scale_before = rows.maybe<double>();
          row.scale_after = rows.maybe<double>();
          if (const auto tracker = rows.maybe<std::int64_t>()) row.growth_tracker = static_cast<std::uint64_t>(*tracker);
          row.outcome = rows.get<std::uint8_t>();
          row.loss = rows.maybe<double>();
        }
      });
}

std::uint64_t Older::key_of(const std::string& name, int role) const {
  return tensor_key(name, role);
}

Older::Owners Older::owners(const std::string& run_uid) {
  constexpr std::chrono::seconds kMoment{2};
  constexpr std::size_t kMost = 64;
  const auto now = std::chrono::steady_clock::now();
  {
    std::lock_guard lock(mutex_);
    const auto known = owners_.find(run_uid);
    if (known != owners_.end() && now - known->second.asked_at < kMoment) return known->second;
  }
  std::vector<Mark> marks;
  const std::string answer =
      query("SELECT term, min(from_pos), max(to_pos) FROM batches WHERE run = " + std::to_string(run_key(run_uid)) +
            " GROUP BY term");
  for (RowReader rows(answer); !rows.done();) {
    Mark& mark = marks.emplace_back();
    mark.term = rows.u64();
    mark.rank = kNoRank;
    mark.from_pos = rows.u64();
    mark.to_pos = rows.u64();
  }
  Owners owners{cover_of(marks), marks.size() > 1, now};
  std::lock_guard lock(mutex_);
  if (owners_.size() >= kMost) owners_.clear();
  owners_[run_uid] = owners;
  return owners;
}

// What is there of places that a later owner filled otherwise stays for ever: an entry counts when it is of the owner whose it
// was to make it.
std::vector<engine::InputRow> Older::inputs(const std::string& run_uid, std::uint64_t after_pos, std::size_t limit) {
  constexpr double kFewPlaces = 32'768;  // most are reports'
  const LogCover log = owners(run_uid).cover;
  std::string owned = "0";
  for (const auto& window : log.windows) {
    owned += " OR (term = " + std::to_string(window.term) + " AND " + between("pos", window.first, window.last) + ")";
  }
  if (after_pos >= log.end()) return {};
  return paged<engine::InputRow>(
      after_pos + 1, log.end(), limit, kFewPlaces, [&](auto first, auto last, auto most, auto& inputs) {
        const std::string answer = query(
            "SELECT * FROM (SELECT pos, payload FROM inputs WHERE run = " + std::to_string(run_key(run_uid)) + " AND " +
            between("pos", first, last) + " AND (" + owned + ") ORDER BY pos LIMIT 1 BY pos) ORDER BY pos" + limited(most));
        for (RowReader rows(answer); !rows.done();) {
          const std::uint64_t pos = rows.u64();
          inputs.push_back({run_uid, pos, std::string(rows.text())});
        }
      });
}

}  // namespace scalewatch::clickhouse
