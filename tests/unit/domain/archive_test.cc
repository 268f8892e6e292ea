#include "server/domain/archive.h"

#include <gtest/gtest.h>

#include <random>

#include "server/domain/rank_state.h"
#include "server/domain/run_state.h"
#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

std::string busy_state() {
  Driver driver({.ranks = 2});
  driver.attempts(3, true, [](AttemptDigest& digest) { add_bad(digest, kGrad1, 1, 2); });
  driver.attempts(5, false);
  return driver.state.save();
}

TEST(Archive, RoundTrips) {
  const std::string bytes = busy_state();
  RunState copy;
  copy.load(bytes);
  EXPECT_EQ(copy.save(), bytes);
}

TEST(Archive, EveryTruncationThrowsAndLeavesTheStateAlone) {
  const std::string bytes = busy_state();
  RunState state;
  state.load(bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(state.load(std::string_view(bytes).substr(0, size)), std::runtime_error) << size;
  }
  EXPECT_THROW(state.load(bytes + "x"), std::runtime_error);
  EXPECT_EQ(state.save(), bytes);
}

TEST(Archive, EveryFlippedByteThrows) {
  std::string bytes = busy_state();
  RunState state;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    EXPECT_THROW(state.load(bytes), std::runtime_error) << at;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
  }
}

// A right checksum over nonsense: bounds, not luck, must hold.
TEST(Archive, NonsenseUnderAValidChecksumThrows) {
  const std::string good = busy_state();
  std::mt19937_64 random(7);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good.substr(0, good.size() - 8);
    for (int i = 0; i < 8; ++i) bytes[8 + random() % (bytes.size() - 8)] = static_cast<char>(random());
    const std::uint64_t sum = fnv1a(bytes);
    bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    RunState state;
    try {
      state.load(bytes);
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(Archive, AnotherKindOrVersionIsNamed) {
  RankState rank;
  RunState run;
  EXPECT_THROW(run.load(rank.save()), std::runtime_error);
  EXPECT_THROW(rank.load(run.save()), std::runtime_error);
  Writer newer(1, 9);
  const std::string bytes = std::move(newer).finish();
  try {
    const Reader reader(bytes, 1, 2);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "state has version 9, this program reads 2");
  }
}

}  // namespace
}  // namespace scalewatch::domain
