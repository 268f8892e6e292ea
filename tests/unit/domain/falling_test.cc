// The tensor whose headroom fell fastest before it overflowed: chains of layers that grow and shrink at known rates.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/domain/graphs/run.h"

namespace scalewatch::domain::graphs {
namespace {

// A chain of linear layers. Layer i's output changes by rates[i] octaves an attempt beyond that of its input.
struct Chain {
  Scenario scenario;
  std::vector<float> rates;
  std::size_t fastest = 0;  // whose output grows most: the sum of the rates up to it is the largest
};

Chain draw_chain(std::uint64_t seed) {
  Random random(seed);
  Chain chain;
  Scenario& s = chain.scenario;
  s.seed = seed;
  const std::size_t layers = 3 + random.below(6);
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string name = "layer" + std::to_string((i * 5 + seed) % 11);  // says nothing of its place
    s.graph.nodes.push_back({Op::kLinear, i == 0 ? Node::kInput : i - 1, Node::kInput, name});
  }
  s.setup.ranks = 1 + static_cast<std::uint32_t>(random.below(3));
  s.setup.init_scale = 1;
  s.setup.learning_rate = 0;  // the growth is all there is
  s.watch.hidden.assign(layers, false);
  s.watch.hidden_weight.assign(layers, true);
  s.watch.activation_gradients = s.watch.gradients = s.watch.state = false;
  // Up to the fastest layer no step is down, after it none is up, and the steps at it are clear.
  chain.fastest = random.below(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    const auto size = static_cast<float>(random.uniform(0.2, 0.4));
    chain.rates.push_back(i <= chain.fastest ? (i == chain.fastest ? size + 0.3F : size) : -size);
  }
  return chain;
}

TEST(Falling, TheTensorWhoseHeadroomFellFastestIsNamed) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Chain chain = draw_chain(seed);
    const std::vector<Blame> blames = run_growing(chain.scenario, chain.rates);
    const std::string& fastest = chain.scenario.graph.nodes[chain.fastest].name;
    ASSERT_FALSE(blames.empty()) << chain.scenario.text();
    for (const Blame& blame : blames) {
      EXPECT_EQ(blame.fastest_falling, fastest) << chain.fastest << " in " << chain.scenario.text();
      EXPECT_GT(blame.octaves_fallen, 1) << chain.scenario.text();
    }
  }
}

}  // namespace
}  // namespace scalewatch::domain::graphs
