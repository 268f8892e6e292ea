// Who goes over old attempts one after the other, as an export does, costs ClickHouse a few questions for many of them.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/input_codec.h"
#include "server/history/clickhouse/tables.h"
#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

constexpr std::uint64_t kAttempts = 260;
constexpr std::uint32_t kRanks = 3;
constexpr std::uint32_t kFew = 30;   // tensors
constexpr std::uint32_t kNever = 2;  // of which no record comes
constexpr std::uint64_t kGapAt = 130;
constexpr std::uint64_t kGap = 70'000;  // attempts that nobody reported

// Attempts are closed one by one, a few without rank 2, whose report comes later; some get details when they are old.
engine::CommitBatch closed_run() {
  std::mt19937 random(5);
  engine::CommitBatch batch;
  batch.runs = {history::run_row("u1", "alpha")};
  auto tensors = history::tensors();
  tensors.resize(kFew + kNever);
  std::uint64_t pos = 0;
  std::vector<engine::IncarnationRow> streams;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    streams.push_back(history::incarnation_row("u1", rank, 1));
    batch.incarnations.push_back(streams.back());
    batch.tables.push_back(history::table_row(streams.back(), tensors));
  }
  std::vector<std::uint64_t> seqs(kRanks);
  const auto report = [&](std::uint32_t rank, std::uint64_t attempt) -> engine::ReportRow& {
    batch.reports.push_back(
        history::row_of(streams[rank], ++seqs[rank], ++pos, attempt, history::random_report(random, attempt, kFew)));
    return batch.reports.back();
  };
  for (std::uint64_t i = 1; i <= kAttempts; ++i) {
    const std::uint64_t attempt = i <= kGapAt ? i : i + kGap;
    const bool late = i % 13 == 0;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (!late || rank != 2) report(rank, attempt);
    }
    domain::AttemptClosed closed{attempt, {}, 0};
    if (late) closed.missing = {2};
    batch.inputs.push_back({"u1", ++pos, engine::encode_input({closed, {}, 1})});
    if (late) report(2, attempt);
    if (i % 4 == 0) report(1, attempt - (i % 3)).retrospective = true;
  }
  return batch;
}

class Walk : public ClickHouseTest {
 protected:
  void SetUp() override {
    ClickHouseTest::SetUp();
    if (IsSkipped()) return;
    here_ = history::SqliteStore::open(here_dir_.path, by_hand());
    here_->commit(closed_run());
    feed(*here_, {"u1"});
    there_ = names_only(there_dir_);
    older_.emplace(options_);
  }
  std::unique_ptr<engine::HistoryApi> api(bool old) {
    history::ApiLimits limits;
    limits.read_time = std::chrono::minutes(5);
    return old ? history::make_history_api(*there_, limits, &*older_) : history::make_history_api(*here_, limits);
  }
  using Ask = std::function<void(v1::GetAttemptRequest&)>;
  // Every page of every attempt.
  static std::vector<std::string> all(engine::HistoryApi& api, const Ask& ask) {
    std::vector<std::string> pages;
    v1::GetAttemptRequest request;
    request.set_run("u1");
    request.set_or_next(true);
    request.set_page_size(1000);
    ask(request);
    for (std::uint64_t next = 1;;) {
      request.set_attempt(next);
      request.clear_page_token();
      do {
        v1::GetAttemptResponse page;
        const auto status = api.get_attempt(request, page);
        if (status.code == engine::Status::kNotFound) return pages;
        EXPECT_TRUE(status.ok()) << status.message;
        if (!status.ok()) return pages;
        pages.push_back(page.DebugString());
        request.set_page_token(page.next_page_token());
        next = page.attempt().attempt() + 1;
      } while (!request.page_token().empty());
    }
  }
  void check(const std::string& what, const Ask& ask, std::uint64_t most) {
    const auto expected = all(*api(false), ask);
    EXPECT_GE(expected.size(), kAttempts);
    const auto old = api(true);
    const std::uint64_t before = questions();
    const auto got = all(*old, ask);
    const std::uint64_t asked = questions() - before;
    std::printf("%s: %llu questions for %zu pages of %llu attempts\n", what.c_str(), static_cast<unsigned long long>(asked),
                got.size(), static_cast<unsigned long long>(kAttempts));
    EXPECT_EQ(got, expected) << what;
    EXPECT_LE(asked, most) << what;
  }

  TempDir here_dir_;
  TempDir there_dir_;
  std::unique_ptr<history::SqliteStore> here_;
  std::unique_ptr<history::SqliteStore> there_;
  std::optional<Older> older_;
};

constexpr std::uint64_t kMost = kAttempts / 2;  // 18.16 counts 50, a current engine each question within another too

TEST_F(Walk, AsksForManyAttemptsAtOnce) {
  check(
      "all", [](auto&) {}, kMost);
  check(
      "in pages", [](auto& request) { request.set_page_size(7); }, 2 * kMost);  // five of each attempt
  check(
      "octaves", [](auto& request) { request.set_octaves(true); }, kMost);
  check(
      "summaries", [](auto& request) { request.set_summary_only(true); }, kMost);
  check(
      "rank 1", [](auto& request) { request.set_rank(1); }, kMost);
}

// The newest records of tensors that have none are looked for in many attempts.
TEST_F(Walk, AListLooksBackAtOnce) {
  v1::ListTensorsRequest request;
  request.set_run("u1");
  request.set_page_size(1000);
  v1::ListTensorsResponse expected;
  v1::ListTensorsResponse got;
  ASSERT_TRUE(api(false)->list_tensors(request, expected).ok());
  ASSERT_EQ(expected.tensors_size(), kFew + kNever);
  const auto old = api(true);
  const std::uint64_t before = questions();
  ASSERT_TRUE(old->list_tensors(request, got).ok());
  const std::uint64_t asked = questions() - before;
  std::printf("list: %llu questions\n", static_cast<unsigned long long>(asked));
  EXPECT_EQ(got.DebugString(), expected.DebugString());
  EXPECT_LE(asked, 40U);
}

TEST_F(Walk, SummariesReadNoRecords) {
  const auto asked = [&](bool summary) {
    older_.emplace(options_);
    const auto old = api(true);
    v1::GetAttemptRequest request;
    request.set_run("u1");
    request.set_attempt(100);
    request.set_summary_only(summary);
    v1::GetAttemptResponse page;
    const std::uint64_t before = questions();
    EXPECT_TRUE(old->get_attempt(request, page).ok());
    return questions() - before;
  };
  const std::uint64_t all = asked(false);
  EXPECT_LT(asked(true), all);
  empty("payloads");
  EXPECT_GT(asked(false), all);
  EXPECT_LT(asked(true), all);
}

TEST_F(Walk, AsksForManyAttemptsAtOnceOfWhichNoPayloadIsLeft) {
  empty("payloads");
  check(
      "all", [](auto&) {}, kMost);
  check(
      "in pages", [](auto& request) { request.set_page_size(7); }, 2 * kMost);  // five of each attempt
  check(
      "rank 1", [](auto& request) { request.set_rank(1); }, kMost);
}

}  // namespace
}  // namespace scalewatch::clickhouse
