// One tensor over attempts, merged over ranks and incarnations: from summaries and frames where one stream alone has it,
// attempt by attempt where several do or where reports are not in chunks yet. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "server/history/catalog.h"
#include "server/history/intervals.h"
#include "server/history/older_history.h"
#include "server/history/report_reader.h"
#include "server/history/stored_records.h"

namespace scalewatch::history {

class TensorSeries {
 public:
  // Called in order of attempts.
  class Sink {
   public:
    virtual ~Sink() = default;
    // Is a stretch with this summary worth reading?
    virtual bool wants(const TensorSummary&) { return true; }
    // May what lies from one attempt to another come as one summary?
    virtual bool takes_summary(std::uint64_t first, std::uint64_t last) = 0;
    // Records from attempt `first` to `last`, both of which have one.
    virtual void summary(std::uint64_t first, std::uint64_t last, const TensorSummary& summary) = 0;
    virtual void record(std::uint64_t attempt, const Measured& measured) = 0;
    // Cells that are all it wants to know, none of which may hold a part of a summary; absent: every record.
    [[nodiscard]] virtual std::optional<AttemptGrid> grid() const { return std::nullopt; }
  };

  TensorSeries(Reading& reading, const Catalog& catalog, std::uint32_t tensor)
      : reading_(reading), catalog_(catalog), tensor_(tensor), stored_(reading) {}

  // Returns the attempt to go on from; absent when all was read before the deadline. At least one attempt is read.
  std::optional<std::uint64_t> read(const ReportRange& range, std::chrono::steady_clock::time_point deadline, Sink& sink);
  // Of each stream's stretches alone, newest first, without merging.
  void read_pieces(const ReportRange& range, Sink& sink);

 private:
  // A stretch of one stream with records of the tensor.
  struct Piece {
    std::int64_t stream = 0;
    std::int64_t number = 0;
    std::uint32_t rank = 0;
    std::uint32_t id = 0;
    std::uint64_t numel = 0;
    std::size_t reports = 0;
    Interval attempts;
    TensorSummary summary;
  };
  struct Part {
    Interval attempts;
    const Piece* piece = nullptr;  // null: attempt by attempt
  };

  [[nodiscard]] bool needs_reports() const;
  std::optional<std::uint64_t> read_older(OlderReading& older, const ReportRange& part,
                                          std::chrono::steady_clock::time_point deadline, Sink& sink);
  // What a record's id says, if it is this tensor's; null: it is not.
  [[nodiscard]] const Catalog::Slot* slot_of(const OlderReading& older, const OlderKey& key, std::uint32_t id) const;
  // Of an older part: whole cells, and what they do not tell record by record.
  std::optional<std::uint64_t> read_sums(OlderReading& older, const ReportRange& part, const AttemptGrid& grid,
                                         std::chrono::steady_clock::time_point deadline, Sink& sink);
  // Its records `within`, all where that is empty. `before`: called before an attempt is given to the sink.
  std::optional<std::uint64_t> read_older_records(OlderReading& older, const ReportRange& part,
                                                  const std::vector<Interval>& within,
                                                  std::chrono::steady_clock::time_point deadline,
                                                  const std::function<void(std::uint64_t attempt)>& before, Sink& sink);
  std::optional<std::uint64_t> read_local(const ReportRange& range, std::chrono::steady_clock::time_point deadline, Sink& sink);
  // Attempt by attempt, merged.
  std::optional<std::uint64_t> read_attempts(const ReportRange& range, std::chrono::steady_clock::time_point deadline,
                                             Sink& sink);
  void load(const ReportRange& range);
  void load_pieces(const ReportRange& range, std::int64_t stream, std::uint32_t rank, std::uint32_t id, std::uint64_t numel);
  // Attempts of a stream that are not in stretches.
  void note_loose(const ReportRange& range, std::int64_t stream);
  void note_overlaps(const ReportRange& range);
  [[nodiscard]] std::vector<Part> parts(const ReportRange& range);
  void read_piece(const Part& part, Sink& sink);

  Reading& reading_;
  const Catalog& catalog_;
  const std::uint32_t tensor_;
  StoredRecords stored_;
  TensorRows rows_;
  std::vector<Piece> pieces_;     // by first attempt
  std::vector<Interval> merged_;  // where streams must be merged attempt by attempt
};

}  // namespace scalewatch::history
