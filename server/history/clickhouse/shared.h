// The shared history in ClickHouse, as other servers see it. Thread-safe; one request at a time.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/engine/ports/clock.h"
#include "server/history/clickhouse/connection.h"
#include "server/history/shared_history.h"

namespace scalewatch::clickhouse {

class Shared final : public history::SharedHistory {
 public:
  Shared(const Options& options, const engine::Clock& clock) : options_(options), clock_(clock), connection_(options) {}

  std::vector<history::SharedRun> list_runs(std::size_t limit, Which which) override;
  std::optional<history::SharedRun> find_run(const std::string& name_or_uid) override;
  std::vector<engine::AlertRow> open_alerts(std::size_t limit) override;
  std::uint64_t claim(const std::string& name, const std::string& instance) override;
  bool load_run(const std::string& run_uid, const std::function<void(engine::CommitBatch&&)>& take) override;
  std::map<std::uint32_t, std::uint64_t> floors(const std::string& run_uid) override;

 private:
  std::string query(const std::string& sql);
  // Makes the tables where this server is the first to look.
  void prepare();
  // The newest row of each value of column `one_of`; of these those that `then` says.
  std::vector<history::SharedRun> runs_where(const std::string& where, const std::string& one_of, const std::string& then,
                                             std::size_t limit);

  const Options options_;
  const engine::Clock& clock_;
  std::mutex mutex_;
  Connection connection_;
  bool prepared_ = false;
};

// What batches say of a run's log.
struct LogCover {
  // Places of a term's entries that count; those of several terms do not overlap.
  struct Window {
    std::uint64_t term = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  std::vector<Window> windows;                                            // latest term first
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> seqs;  // by rank and stream: sent up to here

  [[nodiscard]] bool holds(std::uint64_t term, std::uint64_t pos) const;
  // Of a snapshot: the log up to it is the one that counts.
  [[nodiscard]] bool reaches(std::uint64_t term, std::uint64_t pos) const;
};
// Rows of `batches`: of a stream, or of a run's own entries (rank kNoRank). Pure.
inline constexpr std::uint32_t kNoRank = 0xffffffff;
struct Mark {
  std::uint64_t term = 0;
  std::uint32_t rank = 0;
  std::uint64_t stream = 0;
  std::uint64_t last_seq = 0;
  std::uint64_t from_pos = 0;
  std::uint64_t to_pos = 0;
};
LogCover cover_of(const std::vector<Mark>& marks);

}  // namespace scalewatch::clickhouse
