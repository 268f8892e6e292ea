// The promise that a restart relies on: the same inputs give the same findings, also when cut by save() and load() anywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "server/domain/fields.h"
#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

// Everything of an event, as bytes.
std::string bytes_of(std::vector<FindingEvent> events) {
  Writer writer(0, 0);
  for (FindingEvent& event : events) writer(event.change, event.finding);
  return std::move(writer).finish();
}

// Random, but shaped like a run: ranks join, report (often badly), close, go silent, leave, restart.
std::vector<Input> random_inputs(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  const std::uint32_t ranks = 1 + random() % 4;
  Driver shape({.ranks = ranks,
                .policy = chance(70) ? "pytorch" : (chance(50) ? "static" : "none"),
                .parameters = {{"growth_interval", 5.0}}});
  std::vector<Input> inputs;
  TimeMs now = 1000;
  std::uint32_t segment = 0;
  Attempt attempt = 0;
  const unsigned badness = random() % 60;
  const auto open_segment = [&] {
    inputs.emplace_back(SegmentOpened{++segment, now});
    attempt = 1;
    for (Rank rank = 0; rank < ranks; ++rank) {
      RankJoined joined;
      joined.rank = rank;
      joined.world_size = ranks;
      joined.host = std::string("h") + std::to_string(rank % 2);
      joined.scalers = {{"a", shape.options.policy, shape.options.parameters}, {"b", "pytorch", {}}};
      joined.optimizers = {{"o1", "Adam", 0, 0.1, chance(30)}, {"o2", "SGD", 1, {}, false}};
      joined.now = now;
      inputs.emplace_back(joined);
    }
  };
  open_segment();
  for (int i = 0; i < 400; ++i, now += 50) {
    const bool skip = chance(badness);
    std::vector<Rank> missing;
    for (Rank rank = 0; rank < ranks; ++rank) {
      if (chance(5)) {
        missing.push_back(rank);
        continue;
      }
      AttemptDigest digest = shape.digest(rank, skip);
      digest.attempt = attempt + (chance(10) ? random() % 12 : 0);
      digest.now = now;
      digest.scalers[0].scale_after = skip ? *digest.scalers[0].scale_before / 2 : *digest.scalers[0].scale_before;
      if (chance(20)) digest.scalers.push_back(digest.scalers[0]), digest.scalers[1].scaler = 1;
      if (chance(5)) digest.loss = NAN;
      if (chance(2)) digest.input_non_finite = true;
      digest.observed_activations = chance(50);
      digest.observed_parameters = chance(50);
      digest.observed_gradients = chance(80);
      if (chance(skip ? 80 : 3)) add_bad(digest, random() % 17, random() % 3, random() % 3, random() % 2);
      if (chance(20)) digest.recovered = {static_cast<std::uint32_t>(random() % 17)};
      if (chance(20)) digest.unmasked = {static_cast<std::uint32_t>(random() % 17)};
      if (chance(30)) digest.replicas = {{kWeight0, chance(5) ? random() : 5}};
      if (chance(10)) digest.falling = FallingTensor{static_cast<std::uint32_t>(random() % 17), 2.5};
      if (chance(3)) digest.statistics_lost = static_cast<LossCause>(1 + random() % 7);
      if (chance(4)) digest.retrospective = true;
      inputs.emplace_back(digest);
    }
    inputs.emplace_back(AttemptClosed{attempt++, missing, now});
    shape.policy->update(skip);
    if (chance(3)) {
      Liveness liveness;
      liveness.now = now;
      for (Rank rank = 0; rank < ranks; ++rank) liveness.ranks.push_back({rank, now - (chance(40) ? 70'000 : 10), chance(50)});
      inputs.emplace_back(liveness);
    }
    if (chance(1)) inputs.emplace_back(RankLeft{static_cast<Rank>(random() % ranks), "done", now});
    if (chance(1)) inputs.emplace_back(ReportsLost{0, 1, random() % 5, LossCause::kQueueFull, now});
    if (chance(1)) open_segment();
  }
  for (Rank rank = 0; rank < ranks; ++rank) inputs.emplace_back(RankLeft{rank, "done", now});
  return inputs;
}

TEST(Refold, CutAnywhereGivesTheSameFindingsAndState) {
  int events = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const std::vector<Input> inputs = random_inputs(seed);
    std::mt19937_64 random(seed * 977);
    RunState whole;
    RunState cut;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto expected = whole.fold(inputs[i]);
      events += static_cast<int>(expected.size());
      if (random() % 20 == 0) {
        RunState loaded;
        loaded.load(cut.save());
        cut = std::move(loaded);
      }
      ASSERT_EQ(bytes_of(cut.fold(inputs[i])), bytes_of(expected)) << "seed " << seed << " input " << i;
    }
    ASSERT_EQ(cut.save(), whole.save()) << seed;
  }
  EXPECT_GT(events, 300);
}

TEST(Refold, FindingIdsAreUniqueAndFiringsPair) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    std::map<std::string, std::vector<FindingEvent::Change>> lives;
    RunState state;
    for (const Input& input : random_inputs(seed)) {
      for (const FindingEvent& event : state.fold(input)) lives[event.finding.id].push_back(event.change);
    }
    for (const auto& [id, changes] : lives) {
      using Change = FindingEvent::Change;
      EXPECT_EQ(changes.front(), Change::kOpened) << id;
      EXPECT_EQ(changes.back(), Change::kResolved) << id;  // every rank left
      EXPECT_EQ(std::count(changes.begin(), changes.end(), Change::kOpened), 1) << id;
      EXPECT_EQ(std::count(changes.begin(), changes.end(), Change::kResolved), 1) << id;
    }
  }
}

}  // namespace
}  // namespace scalewatch::domain
