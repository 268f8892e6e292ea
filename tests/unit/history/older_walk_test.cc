// Requests that go over old attempts one after the other are answered out of what was read ahead.
#include "server/history/older_walk.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace scalewatch::history {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;
using ::testing::SizeIs;

constexpr std::uint64_t kLast = 1000;

// Every second attempt, of one rank; notes what it is asked.
class Fake final : public OlderHistory {
 public:
  std::vector<OlderPlace> places(const OlderRange& range, std::size_t limit) override {
    ++questions;
    std::vector<OlderPlace> found;
    for (std::uint64_t at = range.first; at <= std::min(range.last, kLast) && found.size() < limit; ++at) {
      if (at % 2 == 0) found.push_back({at, 0, at});
    }
    return found;
  }
  std::vector<OlderReport> reports(const OlderRange& range, std::size_t limit) override {
    std::vector<OlderReport> found;
    for (const auto& place : places(range, limit)) {
      auto& report = found.emplace_back();
      report.key = {0, 1, place.attempt};
      report.pos = report.attempt = place.attempt;
      report.step = step;
      report.records = records_each;
    }
    return found;
  }
  std::map<OlderKey, std::string> payloads(const std::string& /*run_uid*/, const std::vector<OlderReport>& reports) override {
    ++questions;
    payloads_asked.push_back(reports.size());
    std::map<OlderKey, std::string> found;
    for (const auto& report : reports) found[report.key] = std::to_string(report.pos);
    return found;
  }
  std::vector<OlderRecord> records(const OlderRange& range, const Tensors& /*tensors*/, std::size_t limit) override {
    records_asked.push_back(limit);
    std::vector<OlderRecord> found;
    for (const auto& place : places(range, limit)) {
      for (std::uint32_t id = 0; id < records_each && found.size() < limit; ++id) {
        auto& record = found.emplace_back();
        record.key = {0, 1, place.attempt};
        record.attempt = place.attempt;
        record.id = id;
      }
    }
    return found;
  }
  std::vector<OlderScaler> scalers(const OlderRange& /*range*/, std::optional<std::uint32_t> /*scaler*/,
                                   std::size_t /*limit*/) override {
    ++questions;
    return {};
  }
  std::vector<engine::InputRow> inputs(const std::string& run_uid, std::uint64_t after_pos, std::size_t limit) override {
    ++questions;
    std::vector<engine::InputRow> found;
    for (std::uint64_t pos = after_pos + 1; pos <= kLast && found.size() < limit; ++pos)
      found.push_back({run_uid, pos, "input"});
    return found;
  }
  std::optional<std::pair<std::uint64_t, std::uint64_t>> bounds(const OlderRange& /*range*/) override { return std::nullopt; }
  OlderSums sums(const OlderRange& /*range*/, const Tensors::value_type& /*tensor*/, const AttemptGrid& /*grid*/) override {
    return {};
  }
  OlderCover cover(const OlderRange& /*range*/) override { return {}; }
  std::vector<OlderScore> scores(const OlderRange& /*range*/, By::By /*by*/, const Tensors& /*tensors*/,
                                 std::uint64_t /*first*/, std::uint64_t /*width*/) override {
    return {};
  }
  [[nodiscard]] std::uint64_t key_of(const std::string& /*name*/, int /*role*/) const override { return 0; }

  std::size_t questions = 0;
  std::uint32_t records_each = 3;
  std::int64_t step = 0;
  std::vector<std::size_t> payloads_asked;
  std::vector<std::size_t> records_asked;
};

class Walks : public ::testing::Test {
 protected:
  static OlderRange range(std::uint64_t first, std::uint64_t last) { return {"u1", 1, first, last, {}, {}, false}; }
  // A request for the first attempt from `attempt` on, and its step; 0: there is none.
  std::uint64_t ask(std::uint64_t attempt, std::int64_t* step = nullptr) {
    auto walk = walks_->take({"u1", 1, {}}, attempt, false);
    const auto next = walk->places(range(attempt, 2 * kLast), 1);
    if (next.empty()) return 0;
    const std::uint64_t at = next.front().attempt;
    EXPECT_THAT(walk->places(range(at, at), 10), SizeIs(1));
    const auto reports = walk->reports(range(at, at), 10);
    EXPECT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports.at(0).attempt, at);
    if (step != nullptr) *step = reports.at(0).step;
    const auto payloads = walk->payloads("u1", reports);
    EXPECT_EQ(payloads.size(), 1U);
    EXPECT_EQ(payloads.at(reports[0].key), std::to_string(at));
    if (read_records_) {
      const auto records = walk->records(range(at, at), {}, 1'000'000);
      EXPECT_EQ(records.size(), fake_.records_each);
      for (const auto& record : records) EXPECT_EQ(record.attempt, at);
    }
    const auto inputs = walk->inputs("u1", at, 3);
    EXPECT_EQ(inputs.size(), std::min<std::size_t>(3, kLast - at));
    for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(inputs[i].pos, at + i + 1);
    walks_->put_back(std::move(walk), false);
    return at;
  }
  // Attempts from one to another; returns how many questions it took.
  std::size_t walk(std::uint64_t from, std::uint64_t to) {
    const std::size_t before = fake_.questions;
    std::uint64_t expected = from + from % 2;
    for (std::uint64_t at = from; (at = ask(at)) != 0 && at <= to; ++at, expected += 2) EXPECT_EQ(at, expected);
    return fake_.questions - before;
  }
  void limit(const WalkLimits& limits) { walks_ = std::make_unique<OlderWalks>(&fake_, limits); }

  Fake fake_;
  bool read_records_ = false;
  std::unique_ptr<OlderWalks> walks_ = std::make_unique<OlderWalks>(&fake_);
};

TEST_F(Walks, AskFewQuestions) {
  EXPECT_EQ(ask(101), 102U);
  EXPECT_THAT(fake_.payloads_asked, ElementsAre(1)) << "nobody may ask for more";
  EXPECT_LE(walk(103, kLast + 1), 40U);
  EXPECT_EQ(ask(kLast + 1), 0U);
}

TEST_F(Walks, ReadAnAttemptOnceForAllItsPages) {
  auto walk = walks_->take({"u1", 1, {}}, 10, false);
  ASSERT_THAT(walk->places(range(10, kLast), 1), SizeIs(1));
  const auto page = [&] {
    const auto reports = walk->reports(range(10, 10), 100);
    EXPECT_EQ(walk->payloads("u1", reports).size(), 1U);
    EXPECT_THAT(walk->inputs("u1", 10, 5), SizeIs(5));
  };
  page();
  const std::size_t first = fake_.questions;
  for (int i = 0; i < 5; ++i) {
    walks_->put_back(std::move(walk), true);
    walk = walks_->take({"u1", 1, {}}, 10, true);
    page();
  }
  EXPECT_EQ(fake_.questions, first);
  walks_->put_back(std::move(walk), false);
  walk = walks_->take({"u1", 1, {}}, 10, true);
  page();
  EXPECT_GT(fake_.questions, first) << "it is not held longer than somebody may ask";
}

TEST_F(Walks, AreNoneWhereAttemptsLieApart) {
  for (std::uint64_t at = 1; at < kLast; at += 50) ask(at);
  EXPECT_THAT(fake_.payloads_asked, Each(1U));
}

TEST_F(Walks, GoSideBySide) {
  std::size_t before = fake_.questions;
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(ask(1 + 2 * i), 2 + 2 * i);
    EXPECT_EQ(ask(601 + 2 * i), 602 + 2 * i);
  }
  EXPECT_LE(fake_.questions - before, 60U);
}

TEST_F(Walks, HoldNoMoreThanTheirLimit) {
  fake_.records_each = 1000;
  read_records_ = true;
  constexpr std::size_t kBytes = 1 << 20;
  limit({.attempts = 256, .bytes = kBytes, .kept = 16, .kept_bytes = 64 << 20});
  walk(2, kLast);
  EXPECT_GT(fake_.payloads_asked.at(10), 1U);
  EXPECT_THAT(fake_.payloads_asked, Each(Le(kBytes / (1000 * 100))));
  // Of one attempt alone all is asked.
  std::erase(fake_.records_asked, 1'000'000U);
  EXPECT_GT(fake_.records_asked.size(), 10U);
  EXPECT_THAT(fake_.records_asked, Each(Le(kBytes / sizeof(OlderRecord))));
}

TEST_F(Walks, AreForgottenWhereThereIsNoRoomForThem) {
  limit({.kept_bytes = 1});
  for (std::uint64_t at = 1; at < kLast; at += 2) ask(at);
  EXPECT_GE(fake_.questions, kLast / 2 * 4) << "each anew";
}

TEST_F(Walks, TellWhatIsNewAfterAWhile) {
  limit({.fresh = std::chrono::milliseconds(0)});
  for (std::uint64_t at = 1; at < 100; at += 2) {
    fake_.step = static_cast<std::int64_t>(at);
    std::int64_t step = 0;
    ask(at, &step);
    EXPECT_EQ(step, fake_.step);
  }
  EXPECT_THAT(fake_.payloads_asked, Each(Le(4U)));
}

TEST_F(Walks, ReadNoMoreAtOnceWhereItTakesLong) {
  limit({.patience = std::chrono::milliseconds(0)});
  walk(2, 200);
  EXPECT_THAT(fake_.payloads_asked, Each(1U));
}

}  // namespace
}  // namespace scalewatch::history
