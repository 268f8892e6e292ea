#include "deploy/demo/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace scalewatch::demo {
namespace {

constexpr std::size_t kBatch = 6;

Shape small() {
  return {.vocabulary = 5, .context = 3, .width = 4, .layers = 3};
}

Batch some_batch() {
  Random random(3);
  Batch batch;
  for (std::size_t i = 0; i < kBatch * small().context; ++i) {
    batch.inputs.push_back(static_cast<std::uint32_t>(random.below(small().vocabulary)));
  }
  for (std::size_t i = 0; i < kBatch; ++i) {
    batch.targets.push_back(static_cast<std::uint32_t>(random.below(small().vocabulary)));
    batch.weights.push_back(static_cast<float>(0.5 + random.uniform()));
  }
  return batch;
}

TEST(Model, GradientsAreTheDerivativesOfTheLoss) {
  Model<double> model(small(), kBatch, 1);
  const Batch batch = some_batch();
  model.forward(batch);
  model.backward(batch, 1);
  const double h = 1e-5;
  for (auto& parameter : model.parameters()) {
    const auto gradient = parameter.gradient;
    double largest = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double weight = parameter.master[i];
      parameter.master[i] = weight + h;
      const double above = model.forward(batch);
      parameter.master[i] = weight - h;
      const double below = model.forward(batch);
      parameter.master[i] = weight;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * h), 1e-7) << parameter.name << "[" << i << "]";
      largest = std::max(largest, std::abs(gradient[i]));
    }
    EXPECT_GT(largest, 1e-3) << parameter.name << " gets no gradient";
  }
}

TEST(Model, Fp16GradientsAreTheSameWithinItsPrecision) {
  Model<double> exact(small(), kBatch, 1);
  Model<Half> half(small(), kBatch, 1);
  const Batch batch = some_batch();
  const double loss = exact.forward(batch);
  EXPECT_NEAR(half.forward(batch), loss, 2e-3 * loss);
  exact.backward(batch, 1);
  half.backward(batch, 1024);
  for (std::size_t p = 0; p < exact.parameters().size(); ++p) {
    const auto& want = exact.parameters()[p].gradient;
    const auto& got = half.parameters()[p].gradient;
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(got[i]) / 1024, want[i], 4e-3) << exact.parameters()[p].name << "[" << i << "]";
    }
  }
}

TEST(Model, OneBadWeightReachesTheLossAndEveryGradientAfterIt) {
  Model<Half> model(small(), kBatch, 1);
  const Batch batch = some_batch();
  model.parameters()[1].master[0] = std::numeric_limits<float>::quiet_NaN();  // block1.fc.weight
  EXPECT_TRUE(std::isnan(model.forward(batch)));
  model.backward(batch, 1);
  EXPECT_TRUE(std::isnan(static_cast<float>(model.parameters().back().gradient[0])));
}

TEST(Model, ALargeScaleOverflowsGradientsAndLeavesTheLossAlone) {
  Model<Half> model(small(), kBatch, 1);
  const Batch batch = some_batch();
  EXPECT_TRUE(std::isfinite(model.forward(batch)));
  model.backward(batch, 0x1p24);
  EXPECT_FALSE(std::isfinite(static_cast<float>(model.parameters().back().gradient[0])));
}

TEST(Model, TensorsShareTheirModulesPlaceInForwardOrder) {
  Model<Half> model(small(), kBatch, 1);
  for (const auto& parameter : model.parameters()) {
    const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
    for (const auto& activation : model.activations()) {
      if (activation.name == module + ".out") {
        EXPECT_EQ(parameter.forward_index, activation.forward_index) << parameter.name;
      }
    }
  }
  for (std::size_t i = 1; i < model.activations().size(); ++i) {
    EXPECT_GT(model.activations()[i].forward_index, model.activations()[i - 1].forward_index);
  }
}

}  // namespace
}  // namespace scalewatch::demo
