#include "server/history/older_reading.h"

#include <algorithm>
#include <cstring>

#include "server/history/api_error.h"
#include "server/history/feed_state.h"
#include "server/history/rows.h"
#include "server/history/whole_attempts.h"

namespace scalewatch::history {

namespace {

constexpr std::size_t kPageReports = 4096;
constexpr std::uint32_t kMostTensors = 16'000'000;
constexpr std::size_t kPageRecords = 400'000;  // 60 MB

// An attempt's records lie as far apart as its tensors do, and of each thousands around it must be read; its reports lie
// together.
constexpr std::size_t kManyTensors = 16;
constexpr std::size_t kMaxPayloads = 256;             // reports
constexpr std::size_t kMaxPayloadBytes = 32U << 20U;  // of several attempts

std::uint64_t stream_key(const engine::Incarnation& incarnation) {
  std::uint64_t key = 0;
  std::memcpy(&key, incarnation.data(), sizeof key);
  return key;
}

}  // namespace

OlderReading::OlderReading(OlderHistory& history, Connection& connection, std::int64_t run, std::uint32_t segment)
    : history_(history), segment_(segment), floor_(shared_floor(connection, run, segment)) {
  if (floor_ == 0) return;
  {
    Query query(connection, "SELECT uid FROM runs WHERE id = ?", run);
    if (query.step()) run_uid_ = query.bytes(0);
  }
  Query query(connection, "SELECT id, rank, incarnation FROM streams WHERE run = ? AND segment = ?", run, segment);
  while (query.step()) streams_[{query.u32(1), stream_key(incarnation_from(query.bytes(2)))}] = query.i64(0);
}

std::optional<ReportRange> OlderReading::part(const ReportRange& range) const {
  if (range.first >= floor_) return std::nullopt;
  ReportRange part = range;
  part.last = std::min(range.last, floor_ - 1);
  return part;
}

std::optional<std::int64_t> OlderReading::stream_of(const OlderKey& key) const {
  const auto found = streams_.find({key.rank, key.stream});
  if (found == streams_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> OlderReading::bounds(std::uint64_t first, std::uint64_t last) const {
  if (first >= floor_) return std::nullopt;
  return history_.bounds(range(first, std::min(last, floor_ - 1)));
}

std::optional<std::uint64_t> OlderReading::next(std::uint64_t attempt) const {
  if (attempt >= floor_) return std::nullopt;
  std::size_t ranks = 0;
  std::optional<std::uint32_t> last;
  for (const auto& [key, stream] : streams_) {
    if (last != key.first) ++ranks;
    last = key.first;
  }
  // As many as a whole attempt has, for its ranks are asked for next.
  const auto found = history_.places(range(attempt, floor_ - 1), ranks + 1);
  if (found.empty()) return std::nullopt;
  return found.front().attempt;
}

OlderRange OlderReading::page_range(std::uint64_t first, std::uint64_t last, std::optional<std::uint32_t> rank) const {
  OlderRange page = range(first, last, rank);
  page.within = attempts_;
  page.with_records = with_records_;
  page.each = each_;
  return page;
}

// Of the many tensors of one attempt, or of attempts that lie apart, all reports as they were received; else, or where one is
// gone, none.
std::map<OlderKey, std::string> OlderReading::payloads(const std::vector<OlderReport>& reports) const {
  const bool many = tensors_.empty() || tensors_.size() >= kManyTensors;
  const bool alone = reports.front().attempt == reports.back().attempt;
  if (!many || reports.size() > kMaxPayloads || (!alone && attempts_.size() < 2)) return {};
  std::size_t bytes = 0;
  for (const auto& report : reports) bytes += likely_bytes(report);
  if (!alone && bytes > kMaxPayloadBytes) return {};
  auto found = history_.payloads(run_uid_, reports);
  const bool all = std::all_of(reports.begin(), reports.end(), [&](const auto& report) { return found.contains(report.key); });
  return all ? std::move(found) : std::map<OlderKey, std::string>();
}

std::vector<StoredReport> OlderReading::page(const ReportRange& part, std::uint64_t first, bool with_records) {
  page_.clear();
  parsed_at_ = 0;
  whole_at_ = 0;
  std::vector<StoredReport> out;
  auto reports = whole_attempts<OlderReport>(
      kPageReports, [&](std::size_t limit) { return history_.reports(page_range(first, part.last, part.rank), limit); });
  std::vector<OlderRecord> records;
  std::map<OlderKey, std::string> whole;
  if (with_records && !reports.empty()) whole = payloads(reports);
  if (with_records && !reports.empty() && whole.empty()) {
    bool cut = false;
    records = whole_attempts<OlderRecord>(kPageRecords, [&](std::size_t limit) {
      auto rows = history_.records(page_range(first, reports.back().attempt, part.rank), tensors_, limit);
      cut = rows.size() == limit;
      return rows;
    });
    if (cut) std::erase_if(reports, [&](const auto& report) { return report.attempt > records.back().attempt; });
  }
  std::map<OlderKey, std::size_t> places;
  for (auto& report : reports) {
    const auto stream = stream_of(report.key);
    if (!stream || places.contains(report.key)) continue;
    places[report.key] = page_.size();
    page_.push_back({std::move(report.rest), {}, whole.empty() ? std::string() : std::move(whole[report.key])});
    StoredReport& row = out.emplace_back();
    row.older = static_cast<std::int64_t>(page_.size());
    row.id = -row.older;
    row.stream = *stream;
    row.rank = report.key.rank;
    row.attempt = report.attempt;
    row.step = report.step;
    row.time_ms = report.time_ms;
    row.retrospective = report.retrospective;
    row.loss = report.loss;
    row.lr = report.lr;
    row.grad_norm = report.grad_norm;
  }
  for (const auto& record : records) {
    const auto place = places.find(record.key);
    // An earlier owner may have counted the report as another attempt's.
    if (place == places.end() || out[place->second].attempt != record.attempt) continue;
    page_[place->second].records.emplace_back(record.id, record.measured);
  }
  return out;
}

const OlderReading::Records& OlderReading::records(const StoredReport& report) const {
  return page_.at(static_cast<std::size_t>(report.older - 1)).records;
}

const v1::Report* OlderReading::whole(const StoredReport& report) {
  const std::string& bytes = page_.at(static_cast<std::size_t>(report.older - 1)).whole;
  if (bytes.empty()) return nullptr;
  if (whole_at_ != report.older) {
    whole_at_ = 0;
    if (!whole_.ParseFromString(bytes)) {
      throw ApiError{{engine::Status::kInternal, "the shared report of rank " + std::to_string(report.rank) + " for attempt " +
                                                     std::to_string(report.attempt) + " cannot be read"}};
    }
    whole_at_ = report.older;
  }
  return &whole_;
}

const v1::Report& OlderReading::rest(const StoredReport& report) {
  if (parsed_at_ != report.older) {
    parsed_.ParseFromString(page_.at(static_cast<std::size_t>(report.older - 1)).rest);
    parsed_at_ = report.older;
    // How many records a block has is told by its columns, which are gone.
    for (auto& block : *parsed_.mutable_blocks()) {
      if (block.ids().empty()) block.mutable_sum()->Resize(static_cast<int>(std::min(block.count(), kMostTensors)), 0);
    }
  }
  return parsed_;
}

std::vector<OlderRecord> OlderReading::tensor_page(const ReportRange& part, std::uint64_t first, const std::string& name,
                                                   int role, const std::vector<Interval>& within) {
  OlderRange page = range(first, part.last, part.rank);
  page.within = within;
  return whole_attempts<OlderRecord>(kPageRecords, [&](std::size_t limit) {
    return history_.records(page, {{name, role}}, limit);
  });
}

}  // namespace scalewatch::history
