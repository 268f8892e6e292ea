// One rank alone non-finite before the reduction, again and again: its GPU is suspected, and nobody's else.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {
namespace {

// Rank 2 of four, on host node1 with GPU-2, again and again.
struct GpuCase {
  const char* name = "";
  Driver::Edit edit;
  bool suspect = false;
};
class SuspectGpu : public testing::TestWithParam<GpuCase> {};

TEST_P(SuspectGpu, IsTheOneThatAloneIsBadBeforeTheReduction) {
  Driver driver({.ranks = 4});
  for (int i = 0; i < 4; ++i) {
    driver.attempts(2, false);
    driver.attempt(true, [&](AttemptDigest& digest) {
      add_bad(digest, kGrad1, 5);  // what the reduction gave to all
      GetParam().edit(digest);
    });
  }
  std::string said;
  for (const Finding& finding : driver.state.view().open) {
    for (const Advice& advice : finding.advice) {
      if (finding.rule == "NonFiniteGradient" && advice.id == "suspect_gpu") said = advice.text;
    }
  }
  EXPECT_EQ(!said.empty(), GetParam().suspect) << said;
  if (!GetParam().suspect) return;
  for (const char* word : {"rank 2", "node1", "GPU-2"}) EXPECT_NE(said.find(word), std::string::npos) << said;
}

const GpuCase kGpuCases[] = {
    {"ActivationGradient",
     [](AttemptDigest& d) {
       if (d.rank == 2) add_bad(d, kActGrad2, 1);
     },
     true},
    {"Activation",
     [](AttemptDigest& d) {
       if (d.rank == 2) add_bad(d, kAct2, 1);
     },
     true},
    {"Loss",
     [](AttemptDigest& d) {
       if (d.rank == 2) d.loss = NAN;
     },
     true},
    {"FoundInfBeforeTheReduction", [](AttemptDigest& d) { d.scalers[0].optimizers[0].found_inf_local = d.rank == 2 ? 1 : 0; },
     true},
    {"FoundInfAfterTheReduction", [](AttemptDigest&) {}, false},
    {"EveryRank", [](AttemptDigest& d) { add_bad(d, kActGrad2, 1); }, false},
    {"AnotherRankEachTime",
     [](AttemptDigest& d) {
       if (d.rank == d.attempt / 3 % 4) add_bad(d, kActGrad2, 1);
     },
     false},
    {"ItsData",
     [](AttemptDigest& d) {
       if (d.rank == 2) d.loss = NAN, d.input_non_finite = true;
     },
     false},
};
INSTANTIATE_TEST_SUITE_P(All, SuspectGpu, testing::ValuesIn(kGpuCases), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace scalewatch::domain
