// Reports that only ClickHouse has are read page by page.
#include <algorithm>
#include <cstdint>
#include <string>

#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/tables.h"
#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

constexpr std::uint64_t kReports = 200'000;
constexpr std::uint64_t kRanks = 4;
constexpr std::uint64_t kGap = 10'000'000;  // attempts between the two halves

class OlderPages : public ClickHouseTest {
 protected:
  void SetUp() override {
    ClickHouseTest::SetUp();
    if (IsSkipped()) return;
    Connection connection(options_);
    prepare_tables(connection, options_);
    const std::string half = std::to_string(kReports / 2);
    connection.execute_at(
        0,
        "INSERT INTO " + std::string(options_.sharded() ? "reports_local" : "reports") +
            " (run, segment, attempt, rank, stream, seq, term, pos, day, step, time_ms, retrospective, records, "
            "rest, wide_scores) SELECT toUInt64(" +
            std::to_string(run_key("u1")) + "), toUInt32(1), toUInt64(intDiv(number, 4) + 1 + (number >= " + half + ") * " +
            std::to_string(kGap) + "), toUInt32(number % 4), toUInt64(7), toUInt64(intDiv(number, 4) + 1), toUInt64(0), " +
            "toUInt64(number + 1), toDate('2026-11-30'), toInt64(0), toInt64(0), toUInt8(0), toUInt32(0), '', toUInt8(0) FROM "
            "(SELECT number FROM system.numbers LIMIT " +
            std::to_string(kReports) + ")");
  }
  // Of the primary index of where the rows are, by all questions so far: 8192 rows each.
  std::uint64_t marks_read() {
    const std::string sql = "SELECT value FROM system.events WHERE event = 'SelectedMarks'";
    return std::stoull("0" + Connection(options_).execute_at(0, sql));
  }
  history::OlderRange from(std::uint64_t first) const { return {"u1", 1, first, UINT64_MAX, {}, {}, false}; }
};

TEST_F(OlderPages, AreAllReports) {
  Older older(options_);
  std::uint64_t seen = 0;
  std::uint64_t last = 0;
  constexpr std::size_t kPage = 4096;
  while (true) {
    auto page = older.reports(from(last + 1), kPage);
    if (page.size() == kPage) {  // its last attempt may not be whole
      const std::uint64_t cut = page.back().attempt;
      std::erase_if(page, [&](const auto& report) { return report.attempt == cut; });
    } else if (page.empty()) {
      break;
    }
    for (const auto& report : page) {
      ASSERT_EQ(report.pos, ++seen);
      last = report.attempt;
    }
  }
  EXPECT_EQ(seen, kReports);
  EXPECT_EQ(last, kReports / kRanks + kGap);
  auto few = from(kReports / kRanks / 2 - 1);
  few.rank = 2;
  few.last = kGap + kReports;
  EXPECT_EQ(older.reports(few, 5).back().attempt, kGap + kReports / kRanks / 2 + 3);
}

TEST_F(OlderPages, CostAboutAPageEach) {
  Older older(options_);
  const std::uint64_t before = marks_read();
  EXPECT_EQ(older.reports(from(1), 4096).size(), 4096U);
  EXPECT_LT(marks_read() - before, 10U);  // all that follows has 25 and more
}

}  // namespace
}  // namespace scalewatch::clickhouse
