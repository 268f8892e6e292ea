// Rows of the log of runs, gathered for one round of inserts. The same entries always give the same rows. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "scalewatch/v1/ingest.pb.h"
#include "server/engine/ports/history_store.h"
#include "server/history/clickhouse/native.h"
#include "server/history/record_reader.h"

namespace scalewatch::clickhouse {

// What a stream's table says of a tensor.
struct TensorKey {
  std::uint64_t key = 0;
  std::uint64_t numel = 0;
};
// A stream's table, by tensor id; may grow while the stream lives.
using TensorsOf = std::function<const std::vector<TensorKey>&(std::uint32_t rank, const engine::Incarnation& incarnation,
                                                              std::size_t at_least)>;

class Batch {
 public:
  using Stream = std::tuple<std::string, std::uint32_t, engine::Incarnation>;  // run_uid, rank
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  // What is of one run in it.
  struct Part {
    std::string run_uid;
    std::uint64_t term = 0;
    Range pos;
    bool ranks_changed = false;  // joined or left
  };

  Batch();

  // Entries of one run come in order of pos, all of them between two calls of begin_run().
  void begin_run(const std::string& run_uid, std::uint64_t term, std::uint64_t after_pos, TensorsOf tensors);
  void add(const engine::HistoryStore::LogEntry& entry);
  [[nodiscard]] std::uint64_t pos() const {
    return parts_.back().pos.last;
  }  // of the run's newest entry; after_pos when none came

  [[nodiscard]] std::size_t record_count() const { return records.rows(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // of payloads
  [[nodiscard]] std::uint64_t unreadable() const { return unreadable_; }
  [[nodiscard]] bool empty() const { return parts_.empty(); }
  // Runs that have entries in it.
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] const std::map<Stream, Range>& streams() const { return streams_; }  // seqs of reports and losses
  // The rows of `batches` that say that all of it is there.
  [[nodiscard]] Block marks(const std::string& instance, std::int64_t now_ms) const;
  void end_run();  // forgets a run without entries
  // Puts records into the order of their table, as ClickHouse would for much more, and makes their scores. Before they are
  // sent, once or again.
  void finish();
  void clear();

  Block records;
  Block scores;
  Block non_finite;
  Block reports;
  Block scalers;
  Block inputs;
  Block payloads;

 private:
  void add_report(const engine::ReportRow& row);
  void add_input(const engine::InputRow& row);
  // How many they are.
  std::uint32_t add_records(const engine::ReportRow& row, v1::Report& report);
  void sort_records();
  void add_scores();
  // Where in `records` those of a report are, and what sorts them.
  struct Rows {
    std::uint64_t run = 0;
    std::uint32_t segment = 0;
    std::uint64_t attempt = 0;
    std::uint32_t rank = 0;
    std::uint64_t stream = 0;
    std::uint64_t seq = 0;
    std::size_t first = 0;
    std::size_t count = 0;
    auto operator<=>(const Rows&) const = default;
  };
  void note_seqs(std::uint32_t rank, const engine::Incarnation& incarnation, std::uint64_t first, std::uint64_t last);

  std::vector<Part> parts_;
  std::map<Stream, Range> streams_;
  std::map<std::string, std::uint64_t> record_counts_;  // by run
  std::vector<Rows> rows_;                              // empty: records are sorted
  std::uint64_t run_ = 0;                               // that is added now
  TensorsOf tensors_;
  v1::Report parsed_;
  history::RecordsById measured_;  // of one report
  std::size_t bytes_ = 0;
  std::uint64_t unreadable_ = 0;
};

}  // namespace scalewatch::clickhouse
