// A rank that is done says goodbye while others, behind after a restart of the server, still send: what it reported counts all
// the same when its attempts close. The order in which streams come must not show in what is found.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "server/domain/fields.h"
#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

constexpr Rank kRanks = 4;
constexpr int kTogether = 40;  // attempts that all report in step, before
constexpr int kApart = 12;     // those that ranks 0 to 2 report and leave before rank 3 does
constexpr TimeMs kNow = 1000;  // throughout: when something came is not compared

using Attempts = std::vector<std::vector<AttemptDigest>>;  // by attempt, then by rank

// Every rule over tensors holds something on some ranks, differently bad on each, and some attempts go wrong.
Attempts random_attempts(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  Driver shape({.ranks = kRanks, .parameters = {{"growth_interval", 5.0}}});
  const unsigned badness = random() % 40;
  const unsigned share = 30 + random() % 70;
  std::map<std::pair<Rank, std::size_t>, Attempt> since;
  Attempts all;
  for (int i = 0; i < kTogether + kApart; ++i) {
    const bool skip = chance(badness);
    auto& ranks = all.emplace_back();
    for (Rank rank = 0; rank < kRanks; ++rank) {
      AttemptDigest& digest = ranks.emplace_back(shape.digest(rank, skip));
      digest.now = kNow;
      digest.observed_activations = digest.observed_gradients = digest.observed_parameters = true;
      for (std::size_t rule = 0; rule < kTensorRules; ++rule) {
        Attempt& from = since[{rank, rule}];
        if (chance(5)) from = from == 0 && chance(share) ? shape.next : 0;
        if (from == 0) continue;
        TensorFaults& faults = digest.tensor_faults.emplace_back();
        faults.rule = static_cast<TensorRule>(rule);
        faults.tensors = 1;
        faults.elements = 100;
        faults.measured = 500;
        faults.since = from;
        faults.since_step = static_cast<std::int64_t>(from) * 10;
        faults.worst = {{(*shape.table)[random() % 15].name, Role::kActivation, static_cast<double>(random() % 8) / 8}};
      }
      if (chance(skip ? 70 : 2)) add_bad(digest, random() % 16, random() % 3, random() % 3, 1);
    }
    const double after = shape.policy->update(skip);
    for (AttemptDigest& digest : ranks) digest.scalers[0].scale_after = after;
    ++shape.next;
  }
  return all;
}

// The newest word on each finding, as bytes.
class Told {
 public:
  void take(std::vector<FindingEvent> events) {
    for (FindingEvent& event : events) {
      Writer writer(0, 0);
      writer(event.finding);
      bytes_[event.finding.id] = std::move(writer).finish();
      std::string& text = text_[event.finding.id] = event.finding.summary;
      for (const Advice& advice : event.finding.advice) text += "; " + advice.text;
    }
  }
  void expect_equal(const Told& other, std::uint64_t seed) const {
    for (const auto& [id, bytes] : bytes_) {
      const auto found = other.bytes_.find(id);
      ASSERT_NE(found, other.bytes_.end()) << "seed " << seed << ": " << id;
      EXPECT_TRUE(found->second == bytes) << "seed " << seed << ": " << id << "\n"
                                          << text_.at(id) << "\n"
                                          << other.text_.at(id);
    }
    EXPECT_EQ(other.bytes_.size(), bytes_.size()) << "seed " << seed;
  }
  [[nodiscard]] std::set<std::string> rules() const {
    std::set<std::string> out;
    for (const auto& [id, bytes] : bytes_) out.insert(id.substr(0, id.find('/')));
    return out;
  }

 private:
  std::map<std::string, std::string> bytes_;
  std::map<std::string, std::string> text_;
};

enum class Order : std::uint8_t { kInStep, kAhead, kGoodbyesFirst };

Told fold(const Attempts& attempts, Order order) {
  Driver run({.ranks = kRanks, .parameters = {{"growth_interval", 5.0}}});
  run.now = kNow;
  run.state = RunState();
  run.send(SegmentOpened{1, kNow});
  for (Rank rank = 0; rank < kRanks; ++rank) run.join(rank);
  for (std::size_t i = 0; i < kTogether; ++i) {
    for (const AttemptDigest& digest : attempts[i]) run.send(digest);
    run.close(i + 1);
  }
  const auto tell = [&](Rank rank, std::size_t i) { run.send(attempts[i][rank]); };
  constexpr Rank kBehind = kRanks - 1;
  for (Rank rank = 0; rank < kBehind && order != Order::kInStep; ++rank) {
    for (std::size_t i = kTogether; i < attempts.size(); ++i) tell(rank, i);
    if (order == Order::kGoodbyesFirst) run.send(RankLeft{rank, "done", kNow});
  }
  for (std::size_t i = kTogether; i < attempts.size(); ++i) {
    for (Rank rank = 0; rank < kBehind && order == Order::kInStep; ++rank) tell(rank, i);
    tell(kBehind, i);
    run.close(i + 1);
  }
  run.leave_all();
  Told told;
  told.take(run.events);
  return told;
}

TEST(GoodbyeOrder, BeforeTheClosingOfWhatWasReportedChangesNothing) {
  std::set<std::string> rules;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Attempts attempts = random_attempts(seed);
    const Told expected = fold(attempts, Order::kAhead);
    fold(attempts, Order::kGoodbyesFirst).expect_equal(expected, seed);
    rules.merge(expected.rules());
  }
  for (const char* rule : {"AllZeroGradient", "DominantGradient", "Fp8Saturation", "GradientUnderflow", "LostUpdates",
                           "LowHeadroom", "OptimizerStateUnderflow", "RangeTooWide", "NonFiniteGradient"}) {
    EXPECT_TRUE(rules.contains(rule)) << rule << " was never found: it is not tested";
  }
}

// A rule over scalers looks at an attempt when its leader tells it, and not before all earlier ones are closed and blamed.
TEST(RanksAhead, FindWhatThoseInStepFind) {
  std::set<std::string> rules;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Attempts attempts = random_attempts(seed);
    const Told expected = fold(attempts, Order::kInStep);
    fold(attempts, Order::kAhead).expect_equal(expected, seed);
    rules.merge(expected.rules());
  }
  for (const char* rule : {"ConsecutiveSkips", "FrequentSkippedSteps", "NonFiniteGradient", "ScaleDrift"}) {
    EXPECT_TRUE(rules.contains(rule)) << rule << " was never found: it is not tested";
  }
}

}  // namespace
}  // namespace scalewatch::domain
