// The shared history in ClickHouse, as other servers see it. Thread-safe; one request at a time. Where one hangs, whoever comes
// fails (StoreError, retryable) instead of waiting behind it: a ClickHouse that stands still must not take the server's
// threads.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/engine/ports/clock.h"
#include "server/history/clickhouse/claims.h"
#include "server/history/clickhouse/connection.h"
#include "server/history/shared_history.h"

namespace scalewatch::clickhouse {

class Shared final : public history::SharedHistory {
 public:
  Shared(const Options& options, const engine::Clock& clock) : options_(options), clock_(clock), connection_(options) {}

  std::vector<history::SharedRun> list_runs(std::size_t limit, Which which) override;
  std::optional<history::SharedRun> find_run(const std::string& name_or_uid) override;
  std::optional<history::SharedRun> find_named(const std::string& name) override { return find_by("name", name); }
  std::uint64_t last_place(const std::string& run_uid, std::uint64_t term) override;
  std::vector<engine::AlertRow> open_alerts(std::size_t limit) override;
  std::set<std::string> alert_ids(const std::string& run_uid) override;
  std::uint64_t claim(const std::string& name, const std::string& instance, std::uint64_t known) override;
  bool load_run(const std::string& run_uid, const std::function<void(engine::CommitBatch&&)>& take) override;
  std::map<std::uint32_t, std::uint64_t> floors(const std::string& run_uid) override;
  void cancel() override { connection_.cancel(); }

 private:
  using SteadyClock = std::chrono::steady_clock;
  // The connection, for one request.
  std::unique_lock<std::timed_mutex> turn();
  std::string query(const std::string& sql);
  // Of all that is in the table on any replica: Connection::query_whole.
  std::string query_whole(const std::string& table, const std::string& sql);
  // Makes the tables where this server is the first to look.
  void prepare();
  // The newest row of each value of column `one_of`; of these those that `then` says.
  std::vector<history::SharedRun> runs_where(const std::string& where, const std::string& one_of, const std::string& then,
                                             std::size_t limit, Of of);
  std::optional<history::SharedRun> find_by(const std::string& column, const std::string& value);

  const Options options_;
  const engine::Clock& clock_;
  std::timed_mutex mutex_;
  std::atomic<SteadyClock::time_point> begun_{};  // of the request that has the connection
  Connection connection_;
  bool prepared_ = false;
};

}  // namespace scalewatch::clickhouse
