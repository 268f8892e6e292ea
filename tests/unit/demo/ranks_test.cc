#include "deploy/demo/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <csignal>
#include <span>
#include <stdexcept>

namespace scalewatch::demo {
namespace {

// EXPECT_ in a rank's own process would be lost: bodies return what went wrong as their exit status.
TEST(Ranks, AverageTheirGradientsInFp16) {
  RankGroup group(3, 4);
  const int status = run_ranks(3, [&](std::uint32_t rank) {
    std::array<Half, 3> first{static_cast<Half>(3.0F * static_cast<float>(rank)), static_cast<Half>(1.0F), Half(0)};
    std::array<Half, 1> second{static_cast<Half>(rank == 2 ? INFINITY : 1.0F)};
    const std::array<std::span<Half>, 2> tensors{first, second};
    group.average(rank, tensors);
    const auto third = static_cast<Half>(1.0F / 3);
    const auto one = static_cast<Half>(static_cast<Half>(third + third) + third);
    if (std::abs(static_cast<float>(first[0]) - 3.0F) > 0.01F) return 10;
    if (first[1] != one) return 11;
    if (first[2] != Half(0)) return 12;
    return std::isinf(static_cast<float>(second[0])) ? 0 : 13;  // one rank's Inf is everybody's
  });
  EXPECT_EQ(status, 0);
}

TEST(Ranks, OneThatAsksToStopStopsAll) {
  RankGroup group(3, 0);
  const int status = run_ranks(3, [&](std::uint32_t rank) {
    for (int step = 0; step < 10; ++step) {
      if (group.any(rank, rank == 1 && step == 4)) return step == 4 ? 0 : 20;
    }
    return 21;
  });
  EXPECT_EQ(status, 0);
}

TEST(Ranks, OneThatDiesTakesTheOthersWithIt) {
  RankGroup group(3, 0);
  const int status = run_ranks(3, [&](std::uint32_t rank) {
    if (rank == 1) std::raise(SIGKILL);
    group.any(rank, false);  // would wait for ever
    return 0;
  });
  EXPECT_EQ(status, 128 + SIGKILL);
}

TEST(Ranks, AnExceptionIsAnExitStatusAndOneRankNeedsNoProcess) {
  EXPECT_EQ(run_ranks(2, [](std::uint32_t) -> int { throw std::runtime_error("expected by the test"); }), 1);
  bool here = false;
  EXPECT_EQ(run_ranks(1,
                      [&](std::uint32_t) {
                        here = true;
                        return 7;
                      }),
            7);
  EXPECT_TRUE(here);
  EXPECT_THROW(RankGroup(0, 1), std::invalid_argument);
}

TEST(Ranks, MoreGradientsThanRoomIsAnError) {
  RankGroup group(2, 2);
  std::array<Half, 3> values{};
  const std::array<std::span<Half>, 1> tensors{values};
  EXPECT_THROW(group.average(0, tensors), std::invalid_argument);
}

}  // namespace
}  // namespace scalewatch::demo
