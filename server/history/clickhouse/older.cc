#include "server/history/clickhouse/older.h"

#include <algorithm>

#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/log_cover.h"
#include "server/history/clickhouse/native.h"
#include "server/history/clickhouse/older_sql.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::size_t kIdleConnections = 4;
// A question must not keep people waiting as long as a batch may take.
constexpr std::chrono::milliseconds kPatience{20'000};

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

// ClickHouse sorts all that a question spans, so it is asked of a few attempts at a time: of as many as will hold the page as
// those before them did, and of many more where there were none.
std::vector<history::OlderReport> Older::reports(const history::OlderRange& asked, std::size_t limit) {
  constexpr double kFirst = 32;
  constexpr double kMostTimes = 16;
  std::vector<history::OlderReport> reports;
  history::OlderRange range = asked;
  range.each.clear();
  for (double attempts = kFirst; range.first <= asked.last && reports.size() < limit;) {
    const std::uint64_t left = asked.last - range.first;
    range.last = attempts < static_cast<double>(left) ? range.first + static_cast<std::uint64_t>(attempts) : asked.last;
    const std::size_t before = reports.size();
    read_reports(range, limit - before, reports);
    if (range.last == asked.last) break;
    range.first = range.last + 1;
    const auto found = static_cast<double>(std::max<std::size_t>(reports.size() - before, 1));
    attempts = std::min(attempts * kMostTimes, static_cast<double>(limit - reports.size()) / found * attempts + kFirst);
  }
  return reports;
}

void Older::read_reports(const history::OlderRange& range, std::size_t limit, std::vector<history::OlderReport>& reports) {
  const std::string answer = query(
      "SELECT rank, stream, seq, pos, attempt, step, time_ms, retrospective, loss, lr, grad_norm, rest FROM (SELECT * FROM "
      "reports "
      "WHERE " +
      where(range) + (range.with_records ? " AND records > 0" : "") +
      " ORDER BY rank, stream, seq, term DESC LIMIT 1 BY rank, stream, seq) ORDER BY attempt, rank, pos" + limited(limit));
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
    report.rest = rows.text();
  }
}

std::map<history::OlderKey, std::string> Older::payloads(const std::string& run_uid,
                                                         const std::vector<history::OlderReport>& reports) {
  std::map<history::OlderKey, std::string> found;
  std::string places;
  for (const auto& report : reports) places += (places.empty() ? "" : ",") + std::to_string(report.pos);
  if (places.empty()) return found;
  // A place may be another report's under another owner: `found` has more than was asked for then.
  const std::string answer =
      query("SELECT rank, stream, seq, payload FROM payloads WHERE run = " + std::to_string(run_key(run_uid)) +
            " AND pos IN (" + places + ")");
  for (RowReader rows(answer); !rows.done();) {
    history::OlderKey key;
    key.rank = rows.u32();
    key.stream = rows.u64();
    key.seq = rows.u64();
    found[key] = rows.text();
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

std::vector<history::StoredScaler> Older::scaler(const history::OlderRange& range, std::uint32_t scaler, std::size_t limit) {
  const std::string answer =
      query("SELECT attempt, rank, step, scale_before, scale_after, growth_tracker, outcome, loss FROM scalers WHERE " +
            where(range) + " AND scaler = " + std::to_string(scaler) + " ORDER BY attempt, rank, pos DESC LIMIT 1 BY attempt" +
            limited(limit));
  std::vector<history::StoredScaler> found;
  for (RowReader rows(answer); !rows.done();) {
    auto& row = found.emplace_back();
    row.attempt = rows.u64();
    row.rank = rows.u32();
    row.step = rows.i64();
    row.scale_before = rows.maybe<double>();
    row.scale_after = rows.maybe<double>();
    if (const auto tracker = rows.maybe<std::int64_t>()) row.growth_tracker = static_cast<std::uint64_t>(*tracker);
    row.outcome = rows.get<std::uint8_t>();
    row.loss = rows.maybe<double>();
  }
  return found;
}

std::vector<std::uint32_t> Older::scaler_numbers(const std::string& run_uid, std::uint32_t segment) {
  constexpr std::size_t kMost = 64;
  const std::string answer = query("SELECT DISTINCT scaler FROM scalers WHERE run = " + std::to_string(run_key(run_uid)) +
                                   " AND segment = " + std::to_string(segment) + " ORDER BY scaler" + limited(kMost));
  std::vector<std::uint32_t> numbers;
  for (RowReader rows(answer); !rows.done();) numbers.push_back(rows.u32());
  return numbers;
}

std::uint64_t Older::key_of(const std::string& name, int role) const {
  return tensor_key(name, role);
}

// What is there of places that a later owner filled otherwise stays for ever, for the order of inputs tells terms apart.
std::string Older::counts(const std::string& run_uid) {
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
  std::string any = "0";
  for (const auto& window : cover_of(marks).windows) {
    any += " OR (term = " + std::to_string(window.term) + " AND pos >= " + std::to_string(window.first) +
           " AND pos <= " + std::to_string(window.last) + ")";
  }
  return "(" + any + ")";
}

std::vector<engine::InputRow> Older::inputs(const std::string& run_uid, std::uint64_t after_pos, std::size_t limit) {
  const std::string answer =
      query("SELECT pos, payload FROM inputs WHERE run = " + std::to_string(run_key(run_uid)) + " AND pos > " +
            std::to_string(after_pos) + " AND " + counts(run_uid) + " ORDER BY pos LIMIT 1 BY pos" + limited(limit));
  std::vector<engine::InputRow> inputs;
  for (RowReader rows(answer); !rows.done();) {
    const std::uint64_t pos = rows.u64();
    inputs.push_back({run_uid, pos, std::string(rows.text())});
  }
  return inputs;
}

}  // namespace scalewatch::clickhouse
