// The records of stored reports, wherever they are: in a payload, or in the chunks of a stretch. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scalewatch/v1/ingest.pb.h"
#include "server/history/chunk.h"
#include "server/history/reading.h"
#include "server/history/record_reader.h"
#include "server/history/stretch.h"

namespace scalewatch::history {

struct StoredReport;

// A row of stretches, without its detail.
struct StretchRow {
  std::int64_t stream = 0;
  std::int64_t number = 0;
  std::size_t reports = 0;
  std::uint64_t first = 0;  // attempts
  std::uint64_t last = 0;
  std::vector<std::uint64_t> attempts;  // empty: all from first to last
  [[nodiscard]] std::uint64_t attempt(std::size_t place) const { return attempts.empty() ? first + place : attempts[place]; }
  // Absent: no report of this attempt.
  [[nodiscard]] std::optional<std::size_t> place(std::uint64_t attempt) const;
};

// Highest seq of a stream that is in a stretch; 0 = none.
std::uint64_t stretched_seq(Connection& connection, std::int64_t stream);
std::optional<StretchRow> stretch_numbered(Connection& connection, std::int64_t stream, std::int64_t number);
// The stretch with this attempt in its range.
std::optional<StretchRow> stretch_at(Connection& connection, std::int64_t stream, std::uint64_t attempt);

// Of a row of summaries; an ApiError for what is not what was written.
void open_summaries(std::string_view bytes, std::size_t reports, SummariesView& view);

class StoredRecords {
 public:
  using Numel = std::function<std::uint64_t(std::uint32_t id)>;
  explicit StoredRecords(Reading& reading) : reading_(reading) {}

  // A payload as it was taken in; null when it is not there any more. Throws ApiError for one that can't be read.
  const v1::Report* payload(const StoredReport& report);
  // A tensor's record. Absent: the report has none, or it was thinned to summaries.
  std::optional<Measured> find(const StoredReport& report, std::uint32_t id, std::uint64_t numel);
  // A report's records; from chunks in rising order of ids, else of blocks. At least those of `ids`, and only these are sought.
  void for_each(const StoredReport& report, TensorIds ids, const Numel& numel,
                const std::function<void(std::uint32_t, const Measured&)>& visit);
  // The frame of a tensor over a stretch, valid until the next call; null when it has none.
  const FrameView* frame(const StretchRow& stretch, std::uint32_t id, std::uint64_t numel);
  // The report as a message, from its payload or rebuilt; absent when thinned to summaries.
  std::optional<v1::Report> whole(const StoredReport& report, const Numel& numel);
  // The report's histograms, each with its block. None when it was thinned to summaries.
  void for_each_histogram(const StoredReport& report,
                          const std::function<void(const v1::RecordBlock&, const v1::ExponentHistogram&)>& visit);

 private:
  // Null: it was let go.
  const StretchDetail* detail_of(const StoredReport& report, const StretchRow& stretch);
  const StretchRow* stretch_of(const StoredReport& report);
  // That no chunk of the stretch is other than it was written.
  bool chunks_whole(const StretchRow& stretch);

  Reading& reading_;
  std::map<std::int64_t, StretchRow> stretches_;  // newest used of each stream
  std::int64_t parsed_id_ = 0;
  v1::Report parsed_;
  struct Frame {
    std::int64_t number = -1;
    std::string bytes;
    bool present = false;
    FrameView view;
  };
  std::map<std::pair<std::int64_t, std::uint32_t>, Frame> frames_;  // by stream and id; newest used of each
  struct Detail {
    std::int64_t number = -1;
    StretchDetail detail;
  };
  std::map<std::int64_t, Detail> details_;                 // by stream
  std::pair<std::int64_t, std::int64_t> checked_{-1, -1};  // stream and number of the newest that chunks_whole() found so
};

}  // namespace scalewatch::history
