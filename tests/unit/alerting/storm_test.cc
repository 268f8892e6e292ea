// Ten thousand findings within a second, of many runs: what people, pagers and programs get of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <map>
#include <set>

#include "tests/unit/alerting/samples.h"

namespace scalewatch::alerting {
namespace {

using Change = domain::FindingEvent::Change;
using domain::Severity;

constexpr int kRuns = 100;
constexpr int kFindings = 100;  // of each run
constexpr std::uint64_t kAll = kRuns * kFindings;
constexpr std::int64_t kMinute = 60'000;

class StormTest : public testing::Test {
 protected:
  struct Told {
    std::vector<std::int64_t> at;  // of pages, the test's clock
    std::uint64_t digests = 0;
    std::uint64_t accounted = 0;  // alerts that firing pages and digests speak of
    std::uint64_t resolved = 0;   // pages
    std::set<std::string> keys;
    std::size_t largest = 0;  // bytes of a page's alert
  };

  static SinkConfig sink(const std::string& name, const std::string& type) {
    SinkConfig out;
    out.name = name;
    out.type = type;
    return out;
  }
  static engine::RunContext run(int index) {
    engine::RunContext out = sample_run();
    out.run_uid = "uid" + std::to_string(index);
    out.name = "run-" + std::to_string(index);
    return out;
  }
  static domain::Finding finding(int index, const std::string& rule = "NonFiniteGradient") {
    domain::Finding out = sample_finding(index % 2 == 0 ? Severity::kCritical : Severity::kWarning);
    out.rule = rule;
    out.subject = "layers." + std::to_string(index);
    out.id = rule + "/" + out.subject + "/1.40";
    return out;
  }
  void take(const engine::CommitBatch& batch) {
    for (const engine::OutboxRow& row : batch.outbox) {
      Told& told = told_[row.sink];
      EXPECT_TRUE(told.keys.insert(row.key).second) << row.sink << ' ' << row.key;
      told.largest = std::max(told.largest, row.alert.size());
      v1::Alert alert;
      ASSERT_TRUE(alert.ParseFromString(row.alert));
      EXPECT_LE(alert.grouped_size(), 20);
      if (row.transition == "resolved") {
        ++told.resolved;
        continue;
      }
      told.at.push_back(clock_.now);
      told.digests += row.transition.starts_with("digest:") ? 1 : 0;
      told.accounted += 1 + alert.grouped_total();
    }
  }
  void stage(int run_index, Change change, const std::vector<domain::Finding>& findings) {
    std::vector<domain::FindingEvent> events;
    for (const domain::Finding& each : findings) events.push_back({change, each});
    engine::CommitBatch batch;
    book_.stage(run(run_index), events, batch);
    take(batch);
  }
  void pass(std::int64_t ms) {
    for (const std::int64_t end = clock_.now + ms; clock_.now < end;) {
      clock_.now = std::min(end, clock_.now + 100);
      engine::CommitBatch batch;
      std::vector<v1::Alert> changed;
      book_.turn(batch, changed);
      take(batch);
    }
  }
  // Within a second: every run tells ten times of ten findings.
  void storm(Change change, const std::string& rule = "NonFiniteGradient") {
    for (int part = 0; part < 10; ++part) {
      for (int r = 0; r < kRuns; ++r) {
        std::vector<domain::Finding> ten;
        for (int i = 0; i < 10; ++i) ten.push_back(finding(part * 10 + i, rule));
        stage(r, change, ten);
      }
      pass(100);
    }
  }
  // The most pages of any minute.
  static std::size_t busiest_minute(const Told& told) {
    std::size_t most = 0;
    for (std::size_t first = 0, i = 0; i < told.at.size(); ++i) {
      while (told.at[first] <= told.at[i] - kMinute) ++first;
      most = std::max(most, i - first + 1);
    }
    return most;
  }

  TestClock clock_;
  AlertBook book_{
      {sink("chat", "slack"), sink("pager", "pagerduty"), sink("program", "webhook")}, BookOptions{}, clock_, nullptr};
  std::map<std::string, Told> told_;
};

TEST_F(StormTest, PagesAreFewAndEachFindingIsAccountedFor) {
  const auto before = static_cast<std::int64_t>(mallinfo2().uordblks);
  storm(Change::kOpened);
  pass(55'000);
  for (const char* people : {"chat", "pager"}) {
    EXPECT_EQ(told_[people].at.size(), 10U) << people;
    EXPECT_EQ(told_[people].digests, 0U) << people;
  }
  pass(3 * kMinute);
  for (const char* people : {"chat", "pager"}) {
    const Told& told = told_[people];
    EXPECT_EQ(told.digests, 1U) << people;
    EXPECT_EQ(told.at.size(), 11U) << people;
    EXPECT_LE(busiest_minute(told), 10U) << people;
    EXPECT_EQ(told.accounted, kAll) << people;
    EXPECT_LT(told.largest, 32U << 10) << people;
  }
  // Programs get each on its own.
  EXPECT_EQ(told_["program"].accounted, kAll);
  EXPECT_EQ(told_["program"].at.size(), kAll);

  // As long as they are open each is kept; when they have gone, so has what they took.
  const auto open = static_cast<std::int64_t>(mallinfo2().uordblks) - before;
  storm(Change::kResolved);
  pass(kMinute);
  EXPECT_EQ(told_["program"].resolved, kAll);
  EXPECT_GT(told_["pager"].resolved, 0U);
  told_.clear();
  const auto after = static_cast<std::int64_t>(mallinfo2().uordblks) - before;
  RecordProperty("open_bytes", std::to_string(open));
  RecordProperty("after_bytes", std::to_string(after));
  EXPECT_LT(open, 100 << 20);
  EXPECT_LT(after, 20 << 20);  // what flap damping remembers, which is bounded itself
}

TEST_F(StormTest, WhatComesAndGoesBeyondTheLimitIsCountedInTheDigest) {
  storm(Change::kOpened, "LossSpike");
  // The limit is reached: these are never told on their own.
  storm(Change::kOpened);
  storm(Change::kResolved);
  pass(2 * kMinute);
  const Told& chat = told_["chat"];
  EXPECT_EQ(chat.digests, 1U);
  EXPECT_LE(busiest_minute(chat), 10U);
  EXPECT_EQ(chat.accounted, 2 * kAll);
  EXPECT_LT(chat.largest, 32U << 10);
}

}  // namespace
}  // namespace scalewatch::alerting
