// Ranks that part from each other, and a resume that forgets the scaler.
#include <algorithm>
#include <cmath>
#include <deque>

#include "tests/integration/scenarios/trainer.h"

namespace scalewatch::scenarios {
namespace {

std::deque<Trainer> open_ranks(const Job& job, Setup setup, std::uint32_t count) {
  std::deque<Trainer> ranks;
  setup.world_size = count;
  for (setup.rank = 0; setup.rank < count; ++setup.rank) ranks.emplace_back(job, setup);
  return ranks;
}

// Sample 39363 holds 40,320 NaN on rank 2, which skips its prediction: a loss of 0.0 without a graph, and step() raises. The
// others never end that step.
void weathergen_356(const Job& job) {
  Setup setup;
  setup.layers = {"embed", "ae_local", "ae_global", "pred_heads"};
  auto ranks = open_ranks(job, setup, 4);
  for (int i = 1; i <= 40; ++i) {
    for (Trainer& rank : ranks) rank.attempt({.step = i, .loss = 0.5 - 0.002 * i, .lr = 1e-4});
  }
  ranks[2].attempt({.step = 41,
                    .loss = 0,
                    .lr = 1e-4,
                    .bad_input = true,
                    .no_gradients = true,
                    .raised = "no_inf_checks",
                    .detail = "No inf checks were recorded for this optimizer."});
  for (Trainer& rank : ranks) rank.finish();
}

// 300 steps in which the scale comes down to 16384; the resume begins at 65536 again.
void co_tracker_101(const Job& job) {
  const auto train = [&](int begin, int end) {
    Trainer trainer(job, {});
    for (int i = begin; i < end; ++i) {
      Step step{.step = i, .loss = 8 - 0.01 * i + (begin > 0 && i < begin + 5 ? 1.5 : 0), .lr = 5e-4};
      if (trainer.scale().scale > 0x1p14) step.backward = 3;
      trainer.attempt(step);
    }
    trainer.finish();
  };
  train(0, 300);
  train(300, 340);
}

// Growth counts local steps, and rank 0 has made more of them: it grows at iteration 2071, rank 1 would 40 later.
void pytorch_90057(const Job& job) {
  auto ranks = open_ranks(job, {}, 2);
  constexpr int kFrom = 2041;
  constexpr int kGrows = 2071;
  ranks[0].scale().tracker = 2000 - (kGrows - kFrom + 1);
  ranks[1].scale().tracker = ranks[0].scale().tracker - 40;
  for (int i = kFrom; i <= kGrows + 20; ++i) {
    for (Trainer& rank : ranks) rank.attempt({.step = i, .loss = 0.9 + 0.05 * std::sin(i), .lr = 1e-3});
  }
  for (Trainer& rank : ranks) rank.finish();
}

// Shards are checked by each rank for itself: rank 1 finds Inf and skips, the others step, and wait for it from then on.
void fairscale_179(const Job& job) {
  Setup setup;
  setup.framework = "fairscale";
  auto ranks = open_ranks(job, setup, 3);
  for (int i = 1; i <= 30; ++i) {
    for (std::uint32_t r = 0; r < 3; ++r) {
      Step step{.step = i, .loss = 1.5 - 0.01 * i, .lr = 1e-3};
      if (i == 30 && r == 1) step.backward = 2;
      ranks[r].attempt(step);
    }
  }
  for (Trainer& rank : ranks) rank.finish();
}

}  // namespace

void add_ranks(Scenarios& into) {
  into["weathergen-356"] = weathergen_356;
  into["co-tracker-101"] = co_tracker_101;
  into["pytorch-90057"] = pytorch_90057;
  into["fairscale-179"] = fairscale_179;
}

}  // namespace scalewatch::scenarios
