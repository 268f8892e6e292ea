// Reports that only ClickHouse has are read page by page.
#include <algorithm>
#include <cstdint>
#include <string>

#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/log_cover.h"
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
    const std::string attempt = "toUInt64(intDiv(number, 4) + 1 + (number >= " + half + ") * " + std::to_string(kGap) + ")";
    insert("reports",
           "segment, attempt, rank, stream, seq, term, pos, day, step, time_ms, retrospective, records, rest, wide_scores",
           "toUInt32(1), " + attempt + ", toUInt32(number % 4), toUInt64(7), toUInt64(intDiv(number, 4) + 1), toUInt64(0), " +
               "toUInt64(number + 1), toDate('2026-11-30'), toInt64(0), toInt64(0), toUInt8(0), toUInt32(0), '', toUInt8(0)");
    insert("scalers", "segment, scaler, attempt, rank, pos, day, step, time_ms, outcome",
           "toUInt32(1), toUInt32(0), " + attempt + ", toUInt32(number % 4), toUInt64(number + 1), toDate('2026-11-30'), " +
               "toInt64(number), toInt64(0), toUInt8(1)");
    insert("inputs", "pos, term, payload", "toUInt64(number + 1), toUInt64(0), toString(number + 1)");
    mark(0, 1, kReports);
  }
  // kReports rows, each of its number from 0 on.
  void insert(const std::string& table, const std::string& columns, const std::string& values) {
    Connection(options_).execute_at(0, "INSERT INTO " + table + (options_.sharded() ? "_local" : "") + " (run, " + columns +
                                           ") SELECT toUInt64(" + std::to_string(run_key("u1")) + "), " + values +
                                           " FROM (SELECT number FROM system.numbers LIMIT " + std::to_string(kReports) + ")");
  }
  // An owner says that it shared these places of the log.
  void mark(std::uint64_t term, std::uint64_t first, std::uint64_t last) {
    Block marks(columns_of("batches"));
    const std::uint64_t none = 0;
    add_row(marks, run_key("u1"), term, kNoRank, none, none, none, first, last, none, std::string("any"), std::int64_t{0});
    Connection(options_).insert("batches", marks);
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

TEST_F(OlderPages, AreAllScalersAndInputs) {
  Older older(options_);
  constexpr std::size_t kPage = 10'000;
  std::uint64_t last = 0;
  for (std::uint64_t seen = 0; seen < kReports / kRanks;) {
    const auto page = older.scalers(from(last + 1), {}, kPage);
    ASSERT_EQ(page.size(), kPage);
    for (const auto& scaler : page) ASSERT_EQ(scaler.row.step, static_cast<std::int64_t>(kRanks * seen++));
    last = page.back().attempt;
  }
  EXPECT_EQ(last, kReports / kRanks + kGap);
  EXPECT_TRUE(older.scalers(from(last + 1), {}, kPage).empty());
  for (std::uint64_t pos = 0; pos < kReports;) {
    const auto page = older.inputs("u1", pos, kPage);
    ASSERT_EQ(page.size(), kPage);
    for (const auto& input : page) {
      ASSERT_EQ(input.pos, ++pos);
      ASSERT_EQ(input.payload, std::to_string(pos));
    }
  }
  EXPECT_TRUE(older.inputs("u1", kReports, kPage).empty());
}

TEST_F(OlderPages, CostAboutAPageEach) {
  Older older(options_);
  const std::uint64_t before = marks_read();
  EXPECT_EQ(older.reports(from(1), 4096).size(), 4096U);
  EXPECT_LT(marks_read() - before, 10U);  // all that follows has 25 and more

  const auto cost = [&](const auto& ask) {
    const std::uint64_t cost_before = marks_read();
    ask();
    return marks_read() - cost_before;
  };
  EXPECT_LT(cost([&] { EXPECT_EQ(older.places(from(1), 100).size(), 100U); }), 10U);
  EXPECT_LT(cost([&] { EXPECT_EQ(older.scalers(from(1), 0, 4096).size(), 4096U); }), 10U);
  EXPECT_LT(cost([&] { EXPECT_EQ(older.inputs("u1", 0, 64).size(), 64U); }), 10U);
}

// Two owners had the run: the later one got every report again, in other places.
TEST_F(OlderPages, WhatTheLaterOwnerMadeOfAReportCounts) {
  Older older(options_);
  for (const std::uint64_t term : {2U, 1U}) {  // the earlier one's rows come last
    const std::string shift = std::to_string(term == 2 ? 0 : 4);
    const std::string owner = "toUInt64(" + std::to_string(term) + ")";
    const std::string pos = "toUInt64(number + " + std::to_string(kReports + 1) + " + " + shift + ")";
    const std::string attempt = "toUInt64(" + std::to_string(3 * kGap) + " + intDiv(number, 4))";
    const std::string who = "toUInt32(number % 4), toUInt64(9), toUInt64(intDiv(number, 4) + 1)";
    const std::string day = "toDate('2026-11-30')";
    insert("reports",
           "segment, attempt, rank, stream, seq, term, pos, day, step, time_ms, retrospective, records, rest, wide_scores",
           "toUInt32(1), " + attempt + ", " + who + ", " + owner + ", " + pos + ", " + day +
               ", toInt64(0), toInt64(0), toUInt8(0), toUInt32(1), '', toUInt8(0)");
    insert("scalers", "segment, scaler, attempt, rank, pos, day, step, time_ms, outcome",
           "toUInt32(1), toUInt32(0), " + attempt + ", toUInt32(number % 4), " + pos + ", " + day + ", toInt64(" +
               std::to_string(term) + "), toInt64(0), toUInt8(1)");
    insert("payloads", "pos, term, day, rank, stream, seq, segment, attempt, time_ms, payload",
           pos + ", " + owner + ", " + day + ", " + who + ", toUInt32(1), " + attempt + ", toInt64(0), toString(" +
               std::to_string(term) + ")");
  }
  mark(1, kReports + 1, 2 * kReports);
  mark(2, kReports + 1, 2 * kReports);
  auto range = from(3 * kGap);
  range.last = range.first + 9;
  const auto reports = older.reports(range, 100);
  ASSERT_EQ(reports.size(), 40U);
  const auto payloads = older.payloads("u1", reports);
  EXPECT_EQ(payloads.size(), reports.size());
  for (const auto& [key, payload] : payloads) EXPECT_EQ(payload, "2") << key.rank << " " << key.seq;
  const auto scalers = older.scalers(range, {}, 100);
  EXPECT_EQ(scalers.size(), 10U);
  for (const auto& scaler : scalers) EXPECT_EQ(scaler.row.step, 2) << scaler.attempt;
  const auto places = older.places(range, 100);
  ASSERT_EQ(places.size(), reports.size());
  for (std::size_t i = 0; i < places.size(); ++i) EXPECT_EQ(places[i].pos, reports[i].pos);
}

}  // namespace
}  // namespace scalewatch::clickhouse
