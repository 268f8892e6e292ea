// Old attempts out of ClickHouse, for the history's answers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/history/clickhouse/connection.h"
#include "server/history/clickhouse/log_cover.h"
#include "server/history/older_history.h"

namespace scalewatch::clickhouse {

// Requests of several threads go side by side, each on a connection of its own.
class Older final : public history::OlderHistory {
 public:
  explicit Older(const Options& options);

  std::optional<std::pair<std::uint64_t, std::uint64_t>> bounds(const history::OlderRange& range) override;
  std::vector<history::OlderPlace> places(const history::OlderRange& range, std::size_t limit) override;
  std::vector<history::OlderReport> reports(const history::OlderRange& range, std::size_t limit) override;
  std::map<history::OlderKey, std::string> payloads(const std::string& run_uid,
                                                    const std::vector<history::OlderReport>& reports) override;
  std::vector<history::OlderRecord> records(const history::OlderRange& range, const Tensors& tensors,
                                            std::size_t limit) override;
  history::OlderSums sums(const history::OlderRange& range, const Tensors::value_type& tensor,
                          const history::AttemptGrid& grid) override;
  std::vector<history::OlderScaler> scalers(const history::OlderRange& range, std::optional<std::uint32_t> scaler,
                                            std::size_t limit) override;
  history::OlderCover cover(const history::OlderRange& range) override;
  std::vector<history::OlderScore> scores(const history::OlderRange& range, history::By::By by, const Tensors& tensors,
                                          std::uint64_t first, std::uint64_t width) override;
  [[nodiscard]] std::uint64_t key_of(const std::string& name, int role) const override;
  std::vector<engine::InputRow> inputs(const std::string& run_uid, std::uint64_t after_pos, std::size_t limit) override;

 private:
  std::string query(const std::string& sql);
  void read_reports(const history::OlderRange& range, std::size_t limit, std::vector<history::OlderReport>& reports);
  // Scores of groups of `width` attempts, in cells that `cell_of` makes of a group's first attempt.
  void read_scores(const history::OlderRange& range, history::By::By by, const Tensors& tensors,
                   const std::vector<history::Interval>& groups, std::uint64_t width, bool one_cell,
                   const std::function<std::string(const std::string&)>& cell_of, std::vector<history::OlderScore>& scores);
  // What owners said of a run's log. As it was a moment ago, for one answer asks several times.
  struct Owners {
    LogCover cover;
    bool several = false;  // terms
    std::chrono::steady_clock::time_point asked_at{};
  };
  Owners owners(const std::string& run_uid);

  const Options options_;
  std::mutex mutex_;
  std::map<std::string, Owners> owners_;  // by run_uid
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace scalewatch::clickhouse
