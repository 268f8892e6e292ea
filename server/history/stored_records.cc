#include "server/history/stored_records.h"

#include <algorithm>

#include "server/history/api_error.h"
#include "server/history/keys.h"
#include "server/history/older_reading.h"
#include "server/history/report_reader.h"
#include "server/history/seal.h"

namespace scalewatch::history {

namespace {

constexpr std::size_t kMaxFrames = 4096;  // kept of one request
constexpr std::size_t kMaxDetails = 64;

constexpr const char* kByNumber =
    "SELECT stream, number, reports, first_attempt, last_attempt, attempts FROM stretches WHERE id = ?";

std::optional<StretchRow> read_stretch(Query& query) {
  if (!query.step()) return std::nullopt;
  StretchRow row;
  row.stream = query.i64(0);
  row.number = query.i64(1);
  row.reports = static_cast<std::size_t>(query.i64(2));
  row.first = query.u64(3);
  row.last = query.u64(4);
  if (row.last - row.first + 1 != row.reports) {
    row.attempts = read_attempts(query.view(5), row.reports);
    if (row.attempts.size() != row.reports) return std::nullopt;
  }
  return row;
}

[[noreturn]] void damaged(const StoredReport& report) {
  throw ApiError{{engine::Status::kInternal, "the stored report of rank " + std::to_string(report.rank) + " for attempt " +
                                                 std::to_string(report.attempt) +
                                                 " cannot be read: the history file is damaged"}};
}

[[noreturn]] void damaged(const std::string& what) {
  throw ApiError{{engine::Status::kInternal,
                  what + " cannot be read: the history file is damaged (scalewatch admin verify tells how far)"}};
}

}  // namespace

std::optional<std::size_t> StretchRow::place(std::uint64_t attempt) const {
  if (attempt < first || attempt > last) return std::nullopt;
  if (attempts.empty()) return attempt - first;
  const auto found = std::lower_bound(attempts.begin(), attempts.end(), attempt);
  if (found == attempts.end() || *found != attempt) return std::nullopt;
  return static_cast<std::size_t>(found - attempts.begin());
}

std::uint64_t stretched_seq(Connection& connection, std::int64_t stream) {
  Query query(connection, "SELECT last_seq FROM stretches WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
              stretch_key(stream, 0), stretch_key(stream, kMaxStretch));
  return query.step() ? query.u64(0) : 0;
}

std::optional<StretchRow> stretch_numbered(Connection& connection, std::int64_t stream, std::int64_t number) {
  Query query(connection, kByNumber, stretch_key(stream, number));
  return read_stretch(query);
}

std::optional<StretchRow> stretch_at(Connection& connection, std::int64_t stream, std::uint64_t attempt) {
  std::int64_t number = -1;
  {
    Query query(connection,
                "SELECT number FROM stretches INDEXED BY stretches_by_stream WHERE stream = ? AND first_attempt <= ? "
                "ORDER BY first_attempt DESC LIMIT 1",
                stream, attempt);
    if (query.step()) number = query.i64(0);
  }
  if (number < 0) return std::nullopt;
  auto row = stretch_numbered(connection, stream, number);
  if (!row || attempt > row->last) return std::nullopt;
  return row;
}

const v1::Report* StoredRecords::payload(const StoredReport& report) {
  if (parsed_id_ == report.id) return &parsed_;
  parsed_id_ = 0;
  Query query(reading_.connection(), "SELECT payload FROM payloads WHERE id = ?", report.id);
  if (!query.step()) return nullptr;
  if (!parse_sealed(query, 0, parsed_)) damaged(report);
  parsed_id_ = report.id;
  return &parsed_;
}

const StretchRow* StoredRecords::stretch_of(const StoredReport& report) {
  if (report.retrospective) return nullptr;
  auto found = stretches_.find(report.stream);
  if (found == stretches_.end() || !found->second.place(report.attempt)) {
    auto row = stretch_at(reading_.connection(), report.stream, report.attempt);
    if (!row || !row->place(report.attempt)) return nullptr;
    found = stretches_.insert_or_assign(report.stream, std::move(*row)).first;
  }
  return &found->second;
}

const FrameView* StoredRecords::frame(const StretchRow& stretch, std::uint32_t id, std::uint64_t numel) {
  if (frames_.size() >= kMaxFrames && !frames_.contains({stretch.stream, id})) frames_.clear();
  Frame& frame = frames_[{stretch.stream, id}];
  if (frame.number == stretch.number) return frame.present ? &frame.view : nullptr;
  frame.number = stretch.number;
  frame.present = false;
  BlobReader& blob = reading_.frames();
  if (!blob.open(chunk_key(stretch.stream, stretch.number, id / kChunkTensors))) return nullptr;
  const std::size_t tensor = id % kChunkTensors;
  std::string front;
  if (!blob.read(0, (tensor + 2) * kOffsetBytes, front)) return nullptr;
  const auto place = frame_place(front, tensor);
  if (!place || !blob.read(place->begin, place->end - place->begin, frame.bytes)) return nullptr;
  if (!frame.view.open(frame.bytes, stretch.reports, numel)) {
    frame.number = -1;
    damaged("stored records of attempts " + std::to_string(stretch.first) + " to " + std::to_string(stretch.last));
  }
  frame.present = true;
  return &frame.view;
}

void open_summaries(std::string_view bytes, std::size_t reports, SummariesView& view) {
  if (!view.open(bytes, reports)) damaged("a stored summary of " + std::to_string(reports) + " attempts");
}

std::optional<Measured> StoredRecords::find(const StoredReport& report, std::uint32_t id, std::uint64_t numel) {
  if (report.older > 0) {
    if (const v1::Report* whole = reading_.older()->whole(report)) return find_record(*whole, id, numel);
    const auto& records = reading_.older()->records(report);
    const auto found =
        std::lower_bound(records.begin(), records.end(), id, [](const auto& a, std::uint32_t b) { return a.first < b; });
    if (found == records.end() || found->first != id) return std::nullopt;
    return found->second;
  }
  if (const StretchRow* stretch = stretch_of(report)) {
    if (const auto place = stretch->place(report.attempt)) {
      const FrameView* view = frame(*stretch, id, numel);
      if (view != nullptr) return view->at(*place);
      return std::nullopt;
    }
  }
  const v1::Report* parsed = payload(report);
  if (parsed == nullptr) {
    // Made a stretch of and let go since this request began.
    stretches_.erase(report.stream);
    if (stretch_of(report) != nullptr) return find(report, id, numel);
    return std::nullopt;
  }
  return find_record(*parsed, id, numel);
}

void StoredRecords::for_each(const StoredReport& report, TensorIds ids, const Numel& numel,
                             const std::function<void(std::uint32_t, const Measured&)>& visit) {
  if (report.older > 0) {
    if (const v1::Report* whole = reading_.older()->whole(report)) {
      for_each_record(*whole, numel, visit, ids);
      return;
    }
    for (const auto& [id, measured] : reading_.older()->records(report)) visit(id, measured);
    return;
  }
  if (const v1::Report* parsed = payload(report)) {
    for_each_record(*parsed, numel, visit, ids);
    return;
  }
  const StretchRow* stretch = stretch_of(report);
  if (stretch == nullptr) return;
  const std::size_t place = *stretch->place(report.attempt);
  Query chunks(reading_.connection(), "SELECT id, frames FROM chunks WHERE id BETWEEN ? AND ?",
               chunk_key(stretch->stream, stretch->number, ids.first / kChunkTensors),
               chunk_key(stretch->stream, stretch->number, std::min<std::int64_t>(ids.last / kChunkTensors, kMaxBlock)));
  FrameView view;
  while (chunks.step()) {
    const auto block = static_cast<std::uint32_t>(chunks.i64(0) & kMaxBlock);
    const std::string_view blob = chunks.view(1);
    for (std::uint32_t i = 0; i < kChunkTensors; ++i) {
      const auto bytes = frame_of(blob, i);
      if (bytes.empty()) continue;
      const std::uint32_t id = block * kChunkTensors + i;
      if (!view.open(bytes, stretch->reports, numel(id))) damaged(report);
      if (const auto measured = view.at(place)) visit(id, *measured);
    }
  }
}

const StretchDetail* StoredRecords::detail_of(const StoredReport& report, const StretchRow& stretch) {
  if (details_.size() >= kMaxDetails && !details_.contains(report.stream)) details_.clear();
  Detail& detail = details_[report.stream];
  if (detail.number != stretch.number) {
    detail.number = -1;
    Query query(reading_.connection(), "SELECT detail FROM stretches WHERE id = ?",
                stretch_key(stretch.stream, stretch.number));
    if (!query.step() || query.view(0).empty()) return nullptr;
    detail.detail = {};
    if (!detail.detail.open(query.view(0), stretch.reports)) damaged(report);
    detail.number = stretch.number;
  }
  return &detail.detail;
}

void StoredRecords::for_each_histogram(const StoredReport& report,
                                       const std::function<void(const v1::RecordBlock&, const v1::ExponentHistogram&)>& visit) {
  const auto each = [&](const v1::Report& blocks) {
    for (const auto& block : blocks.blocks()) {
      for (const auto& histogram : block.exponents()) visit(block, histogram);
    }
  };
  if (report.older > 0) return each(reading_.older()->rest(report));
  if (const v1::Report* parsed = payload(report)) return each(*parsed);
  const StretchRow* stretch = stretch_of(report);
  const StretchDetail* detail = stretch != nullptr ? detail_of(report, *stretch) : nullptr;
  if (detail == nullptr) return;
  const auto blocks = detail->bare_blocks(*stretch->place(report.attempt));
  if (!blocks) damaged(report);
  each(*blocks);
}

bool StoredRecords::chunks_whole(const StretchRow& stretch) {
  const std::pair<std::int64_t, std::int64_t> key{stretch.stream, stretch.number};
  if (checked_ == key) return true;
  Query chunks(reading_.connection(), "SELECT frames FROM chunks WHERE id BETWEEN ? AND ?",
               chunk_key(stretch.stream, stretch.number, 0), chunk_key(stretch.stream, stretch.number, kMaxBlock));
  while (chunks.step()) {
    // What a repair could only remove is not there to be served.
    if (!chunks.view(0).empty() && seal_of_chunk(chunks.view(0)) == Seal::kBroken) return false;
  }
  checked_ = key;
  return true;
}

std::optional<v1::Report> StoredRecords::whole(const StoredReport& report, const Numel& numel) {
  if (const v1::Report* parsed = payload(report)) return *parsed;
  const StretchRow* stretch = stretch_of(report);
  const StretchDetail* detail = stretch != nullptr ? detail_of(report, *stretch) : nullptr;
  if (detail == nullptr) return std::nullopt;
  if (!chunks_whole(*stretch)) damaged(report);
  std::unordered_map<std::uint32_t, Measured> records;
  for_each(report, {}, numel, [&](std::uint32_t id, const Measured& measured) { records.emplace(id, measured); });
  const auto record = [&](std::uint32_t id) -> std::optional<Measured> {
    const auto found = records.find(id);
    if (found == records.end()) return std::nullopt;
    return found->second;
  };
  auto rebuilt = detail->rebuild(*stretch->place(report.attempt), record, numel);
  if (!rebuilt) damaged(report);
  return rebuilt;
}

}  // namespace scalewatch::history
