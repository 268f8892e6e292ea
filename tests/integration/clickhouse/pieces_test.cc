// Attempts that lie apart and must be read one by one, by the hundred: a few questions for many of them.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

constexpr std::uint64_t kAttempts = 600;
constexpr std::uint32_t kFew = 30;   // tensors
constexpr std::uint64_t kEvery = 3;  // attempts until the next that has details

engine::CommitBatch detailed_run() {
  std::mt19937 random(8);
  engine::CommitBatch batch;
  batch.runs = {history::run_row("u1", "alpha")};
  const auto stream = history::incarnation_row("u1", 0, 1);
  batch.incarnations = {stream};
  auto tensors = history::tensors();
  tensors.resize(kFew);
  batch.tables = {history::table_row(stream, tensors)};
  std::uint64_t seq = 0;
  for (std::uint64_t attempt = 1; attempt <= kAttempts; ++attempt) {
    const bool detailed = attempt % kEvery == 0;
    for (int i = 0; i < (detailed ? 2 : 1); ++i) {
      ++seq;
      batch.reports.push_back(history::row_of(stream, seq, seq, attempt, history::random_report(random, attempt, kFew)));
      batch.reports.back().retrospective = i == 1;
    }
  }
  return batch;
}

class Pieces : public ClickHouseTest {
 protected:
  // A run that is whole in here_, and of which there_ has names alone.
  void SetUp() override {
    ClickHouseTest::SetUp();
    if (IsSkipped()) return;
    here_ = history::SqliteStore::open(here_dir_.path, by_hand());
    here_->commit(detailed_run());
    feed(*here_, {"u1"});
    there_ = names_only(there_dir_);
    older_.emplace(options_);
  }
  static history::ApiLimits limits(std::chrono::milliseconds read_time) {
    history::ApiLimits limits;
    limits.read_time = read_time;
    return limits;
  }
  std::unique_ptr<engine::HistoryApi> old_api(std::chrono::milliseconds read_time) {
    return history::make_history_api(*there_, limits(read_time), &*older_);
  }
  static v1::GetHeatMapRequest map_of(int by, std::uint64_t first, std::uint64_t last) {
    v1::GetHeatMapRequest map;
    map.set_run("u1");
    map.set_max_tensors(20);
    map.set_tensor_contains("t");
    map.mutable_range()->set_first(first);
    map.mutable_range()->set_last(last);
    map.set_by(static_cast<v1::TopTensorsRequest::By>(by));
    return map;
  }

  void check(std::uint64_t most) {
    const auto expected = history::make_history_api(*here_, limits(std::chrono::minutes(5)));
    const auto old = old_api(std::chrono::minutes(5));
    for (const auto& [first, last] : {std::pair{0U, 0U}, {107U, 593U}}) {
      for (int by = 0; v1::TopTensorsRequest::By_IsValid(by); ++by) {
        const auto map = map_of(by, first, last);
        v1::TopTensorsRequest top;
        top.set_run("u1");
        top.set_limit(9);
        *top.mutable_range() = map.range();
        top.set_by(map.by());
        compare("heat map", map, v1::GetHeatMapResponse(), &engine::HistoryApi::get_heat_map, *expected, *old, most);
        compare("top tensors", top, v1::TopTensorsResponse(), &engine::HistoryApi::top_tensors, *expected, *old, most);
      }
    }
  }
  template <class Request, class Response, class Call>
  void compare(const char* what, const Request& request, Response answer, Call call, engine::HistoryApi& expected,
               engine::HistoryApi& old, std::uint64_t most) {
    ASSERT_TRUE((expected.*call)(request, answer).ok());
    const std::string right = answer.DebugString();
    const std::uint64_t before = questions();
    ASSERT_TRUE((old.*call)(request, answer).ok());
    const std::uint64_t asked = questions() - before;
    std::printf("%s: %llu questions for %llu attempts that lie apart\n", what, static_cast<unsigned long long>(asked),
                static_cast<unsigned long long>(kAttempts / kEvery));
    EXPECT_EQ(answer.DebugString(), right) << request.ShortDebugString();
    EXPECT_LE(asked, most) << request.ShortDebugString();
  }

  TempDir here_dir_;
  TempDir there_dir_;
  std::unique_ptr<history::SqliteStore> here_;
  std::unique_ptr<history::SqliteStore> there_;
  std::optional<Older> older_;
};

constexpr std::uint64_t kMost = kAttempts / kEvery / 2;

TEST_F(Pieces, AreReadManyAtOnce) {
  check(kMost);
}

TEST_F(Pieces, AreReadManyAtOnceOfWhichNoPayloadIsLeft) {
  empty("payloads");
  check(kMost);
}

TEST_F(Pieces, EndWithTheTime) {
  const auto map = map_of(v1::TopTensorsRequest::BY_NON_FINITE, 0, 0);
  v1::GetHeatMapResponse all;
  v1::GetHeatMapResponse some;
  const auto asked = [&](std::chrono::milliseconds time, v1::GetHeatMapResponse& response) {
    const std::uint64_t before = questions();
    EXPECT_TRUE(old_api(time)->get_heat_map(map, response).ok());
    return questions() - before;
  };
  const std::uint64_t for_all = asked(std::chrono::minutes(5), all);
  EXPECT_LT(asked(std::chrono::milliseconds(0), some), for_all);
  EXPECT_FALSE(all.truncated());
  EXPECT_TRUE(some.truncated());
}

}  // namespace
}  // namespace scalewatch::clickhouse
