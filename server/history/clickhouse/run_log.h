// A run as a takeover reads it: its streams and tables, the newest snapshot, and the log from there on. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/ports/history_store.h"
#include "server/history/clickhouse/log_cover.h"

namespace scalewatch::clickhouse {

class RunLog {
 public:
  // `query` gives a statement's result as RowBinary.
  using Query = std::function<std::string(const std::string& table, const std::string& sql)>;  // of that table alone
  RunLog(Query query, const std::string& run_uid);

  // Takes the run with its streams, then its log in order. The snapshot goes into `newest`, which comes after them.
  using Take = std::function<void(engine::CommitBatch&&)>;
  void read(const engine::RunRow& run, const Take& take, engine::CommitBatch& newest);
  // Reports after the snapshot that were shared and, when read() ended, were not there as received: the run's state goes
  // without them.
  [[nodiscard]] std::uint64_t gone() const { return gone_; }

 private:
  engine::CommitBatch head(const engine::RunRow& run);
  // The log after it is needed.
  std::uint64_t snapshot(engine::CommitBatch& into);
  // What counts of the places after `after` up to `last`; adds its bytes.
  std::vector<engine::ReportRow> reports(std::uint64_t after, std::uint64_t last, std::size_t& bytes);
  std::vector<engine::InputRow> inputs(std::uint64_t after, std::uint64_t last, std::size_t& bytes);
  // The first place after it of which there is anything.
  std::optional<std::uint64_t> next_place(std::uint64_t after);
  std::uint64_t count_gone(std::uint64_t after);

  const Query query_;
  const std::string run_uid_;
  const std::string run_is_;  // a condition
  const LogCover cover_;
  std::uint64_t gone_ = 0;
  std::map<std::pair<std::uint32_t, std::uint64_t>, engine::Incarnation> streams_;  // by rank and stream
};

}  // namespace scalewatch::clickhouse
