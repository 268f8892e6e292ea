// A store with a history API over it, and helpers that commit attempts.
#pragma once

#include <gmock/gmock.h>

#include "server/history/history_api.h"
#include "tests/unit/history/fixtures.h"

namespace scalewatch::history {

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() : store_(SqliteStore::open(dir_.path)), api_(make_history_api(*store_)) {}

  // A run "alpha" of uid "u1" whose ranks have these tables.
  void make_run(const std::vector<std::vector<Tensor>>& tables) {
    engine::CommitBatch batch;
    batch.runs = {run_row("u1", "alpha")};
    for (std::uint32_t rank = 0; rank < tables.size(); ++rank) {
      streams_.push_back(incarnation_row("u1", rank, 1));
      batch.incarnations.push_back(streams_.back());
      batch.tables.push_back(table_row(streams_.back(), tables[rank]));
    }
    store_->commit(batch);
  }
  engine::ReportRow next_report(const engine::IncarnationRow& stream, std::uint64_t attempt, const v1::Report& report = {}) {
    ++pos_;
    return report_row(stream, pos_, pos_, attempt, report);
  }
  void commit(std::vector<engine::ReportRow> reports) {
    engine::CommitBatch batch;
    batch.reports = std::move(reports);
    store_->commit(batch);
  }
  void commit(const engine::IncarnationRow& stream, std::uint64_t attempt, const v1::Report& report) {
    commit({next_report(stream, attempt, report)});
  }

  TempDir dir_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<engine::HistoryApi> api_;
  std::vector<engine::IncarnationRow> streams_;  // by rank
  std::uint64_t pos_ = 0;
};

}  // namespace scalewatch::history
