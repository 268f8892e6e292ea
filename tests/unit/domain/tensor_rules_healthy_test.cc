// Healthy training, record by record: nothing above info. Planted in it: faults, told within the samples that the rules allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/unit/domain/tensor_driver.h"

namespace scalewatch::domain {
namespace {

// kNarrowWeights: fp16 weights and Adam moments, no copy in fp32. kFp8: computed in e4m3fn.
enum class Kind : std::uint8_t { kPlain, kNarrowWeights, kFp8 };

// A small transformer as its statistics: embedding (gradient mostly zero), blocks with ReLU (half zero), a bias whose gradient
// is nothing but rounding noise, batch statistics, a frozen layer, a mask, a head. The gradients' level wanders with heavy
// tails, under a scaler that rides the edge, is static, or absent (bf16).
class Network {
 public:
  explicit Network(std::uint64_t seed, Kind kind = Kind::kPlain) : random_(seed), driver_(options(seed, kind)) {
    sigma_ = 0.05 + 0.35 * uniform();
    tail_ = seed % 2 == 0 ? 4 + 4 * uniform() : 0;
    level_ = seed % 4 == 2 ? -6 : -2 + 4 * uniform();  // octaves of the largest gradient, unscaled
    cadence_ = seed % 5 == 0 ? 10 : 1;
    embed_ = driver_.add("embed.weight", Role::kGradient, DType::kFp16, 400'000);
    for (int i = 0; i < 6; ++i) {
      const std::string name = "layers." + std::to_string(i);
      weights_.push_back(driver_.add(name + ".weight", Role::kGradient, DType::kFp16, 200'000));
      acts_.push_back(driver_.add(name, Role::kActivation, DType::kFp16, 50'000));
      act_grads_.push_back(driver_.add(name, Role::kActivationGradient, DType::kFp16, 50'000));
      const DType kept = kind == Kind::kNarrowWeights ? DType::kFp16 : DType::kFp32;
      params_.push_back(driver_.add(name + ".weight", Role::kParameter, kept, 200'000));
      states_.push_back(driver_.add(name + ".weight.exp_avg_sq", Role::kOptimizerState, kept, 200'000));
    }
    noise_ = driver_.add("k.bias", Role::kGradient, DType::kFp16, 1'000);
    frozen_ = driver_.add("backbone.weight", Role::kGradient, DType::kFp16, 10'000);
    driver_.table[frozen_].optimizer = "";
    buffer_ = driver_.add("bn.running_var", Role::kBuffer, DType::kFp32, 1'000);
    scores_ = driver_.add("scores", Role::kActivation, DType::kFp16, 50'000);
  }

  double uniform() { return static_cast<double>(random_() >> 11U) * 0x1p-53; }
  double noise() { return sigma_ * normal_(random_) + (tail_ > 0 ? -std::log2(1 - uniform()) / tail_ : 0); }

  void run(int attempts) {
    for (int i = 0; i < attempts; ++i) attempt();
  }

  std::map<std::uint32_t, Shape> plant;  // takes the place of the healthy record
  [[nodiscard]] TensorDriver& driver() { return driver_; }
  [[nodiscard]] std::uint32_t weight(int i) const { return weights_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::uint32_t act(int i) const { return acts_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::uint32_t parameter(int i) const { return params_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::uint32_t state(int i) const { return states_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] double scale() const { return driver_.run.options.scaler ? driver_.run.policy->scale() : 1; }

 private:
  static TensorDriver::Options options(std::uint64_t seed, Kind kind) {
    TensorDriver::Options out;
    if (kind == Kind::kNarrowWeights) out.state_dtypes = {DType::kFp16};
    if (kind == Kind::kFp8) {
      out.run.compute = out.target = DType::kE4m3fn;
      return out;
    }
    if (seed % 4 == 2) {
      out.run.policy = "static";
      out.run.parameters = {{"init_scale", 4096}};
    } else if (seed % 4 == 3) {
      out.run.policy = "none";
      out.run.compute = out.target = DType::kBf16;
    } else {
      out.run.parameters = {{"growth_interval", seed % 3 == 0 ? 50.0 : 500.0}};
    }
    return out;
  }

  // A gradient with `top` octaves at its largest, as stored.
  Shape gradient(double top, std::uint64_t numel, std::uint64_t zero) {
    Shape shape;
    shape.numel = numel;
    shape.zero = zero;
    shape.absmax = std::exp2(top);
    shape.rms = std::exp2(top - 4);
    // A record counts what would be subnormal without the scale, here of a Gaussian.
    const double sigma = shape.rms * std::sqrt(static_cast<double>(numel) / static_cast<double>(numel - zero)) / scale();
    const double share = driver_.options.target == DType::kFp16 ? std::min(1.0, 0.8 * 0x1p-14 / sigma) : 0;
    shape.subnormal = static_cast<std::uint64_t>(share * static_cast<double>(numel - zero));
    shape.flushed = static_cast<std::uint64_t>(share * 0x1p-11 * static_cast<double>(numel - zero));
    return shape;
  }

  void attempt() {
    level_ += 0.01 * normal_(random_);
    const double scaled = level_ + std::log2(scale());
    const double top = scaled + noise();
    const bool narrow = driver_.options.target != DType::kBf16;
    const bool skip = narrow && driver_.run.policy->guards() && top > 16;
    ++attempts_;
    std::map<std::uint32_t, Shape> shapes;
    if (attempts_ % cadence_ == 0) {
      const auto rows = static_cast<std::uint64_t>(4000 * std::exp2(0.5 * normal_(random_)));  // of a batch's tokens
      shapes[embed_] =
          gradient(std::min(scaled - 3 + noise(), 15.9), 400'000, 400'000 - std::min<std::uint64_t>(rows, 399'000));
      for (int i = 0; i < 6; ++i) {
        const double layer = i == 0 ? top : scaled - i + noise();
        shapes[weight(i)] = gradient(std::min(layer, 15.99), 200'000, static_cast<std::uint64_t>(20'000 + 2'000 * uniform()));
        shapes[act(i)] = {.absmax = std::exp2(3 + i + noise()), .numel = 50'000, .zero = 25'000, .subnormal = 40};
        shapes[act_grads_[static_cast<std::size_t>(i)]] = gradient(std::min(layer - 4, 15.9), 50'000, 25'000);
        shapes[params_[static_cast<std::size_t>(i)]] = {.absmax = 0.2, .rms = 0.02, .numel = 200'000};
        shapes[state(i)] = {.absmax = 1e-4, .rms = 1e-6, .numel = 200'000, .zero = attempts_ == 1 && skip ? 200'000U : 0U};
      }
      if (skip) shapes[weight(0)].pos_inf = 3;
      // Mathematically zero, so that only rounding is left.
      shapes[noise_] = gradient(scaled - 24 + noise(), 1'000, 300);
      shapes[frozen_] = {.absmax = 0, .rms = 0, .numel = 10'000, .zero = 10'000};
      shapes[buffer_] = {.absmax = 50'000, .rms = 1, .numel = 1'000};
      shapes[scores_] = {.absmax = attempts_ % 2 == 0 ? 65504.0 : 30.0, .numel = 50'000, .neg_inf = 20'000, .high = 15};
    }
    for (const auto& [id, shape] : plant) {
      if (shapes.contains(id)) shapes[id] = shape;
    }
    driver_.attempt(shapes, skip);
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  TensorDriver driver_;
  double sigma_ = 0;
  double tail_ = 0;
  double level_ = 0;
  int cadence_ = 1;
  int attempts_ = 0;
  std::vector<std::uint32_t> weights_, acts_, act_grads_, params_, states_;
  std::uint32_t embed_ = 0;
  std::uint32_t noise_ = 0;
  std::uint32_t frozen_ = 0;
  std::uint32_t buffer_ = 0;
  std::uint32_t scores_ = 0;
};

constexpr const char* kRules[] = {"NonFiniteActivation", "GradientUnderflow", "LowHeadroom",
                                  "AllZeroGradient",     "DominantGradient",  "OptimizerStateUnderflow",
                                  "RangeTooWide",        "LostUpdates",       "Fp8Saturation"};

// In parts that a test runner may run side by side; together 200 runs.
class TensorRulesHealthy : public testing::TestWithParam<int> {};

TEST_P(TensorRulesHealthy, NothingAboveInfo) {
  int infos = 0;
  const auto first = static_cast<std::uint64_t>(GetParam());
  for (std::uint64_t seed = first; seed < first + 50; ++seed) {
    Network network(seed, seed % 7 == 0 ? Kind::kFp8 : seed % 7 == 1 ? Kind::kNarrowWeights : Kind::kPlain);
    network.run(200 + static_cast<int>(seed * 7919 % 1500));
    for (const FindingEvent& event : network.driver().run.events) {
      const Finding& finding = event.finding;
      if (std::none_of(std::begin(kRules), std::end(kRules), [&](const char* rule) { return finding.rule == rule; })) continue;
      ++infos;
      ASSERT_LE(finding.severity, Severity::kInfo)
          << "seed " << seed << " " << finding.id << ": " << finding.summary << " at " << finding.last_attempt;
    }
  }
  EXPECT_GT(infos, 0);  // the noisy bias underflows, which is worth an info and no more
}

INSTANTIATE_TEST_SUITE_P(Seeds, TensorRulesHealthy, testing::Values(1, 51, 101, 151));

struct Plant {
  const char* rule;
  int samples;  // that the rule allows
  void (*put)(Network&);
  Kind kind = Kind::kPlain;
  Severity severity = Severity::kWarning;
};

TEST(TensorRulesPlanted, AreToldWithinTheirSamples) {
  const Plant plants[] = {
      {"LowHeadroom", 20, [](Network& n) { n.plant[n.act(2)] = {.absmax = 30'000, .numel = 50'000}; }},
      {"RangeTooWide", 20, [](Network& n) { n.plant[n.act(3)] = {.absmax = 50'000, .numel = 50'000, .subnormal = 5'000}; }},
      {"NonFiniteActivation", 1, [](Network& n) { n.plant[n.act(1)] = {.numel = 50'000, .pos_inf = 1}; }},
      {"AllZeroGradient", 50,
       [](Network& n) { n.plant[n.weight(4)] = {.absmax = 0, .rms = 0, .numel = 200'000, .zero = 200'000}; }},
      {"GradientUnderflow", 20,
       [](Network& n) { n.plant[n.weight(5)] = {.absmax = 0x1p-10, .rms = 0x1p-16, .numel = 200'000, .subnormal = 200'000}; }},
      {"GradientUnderflow", 20, [](Network& n) { n.plant[n.weight(3)] = {.numel = 200'000, .zero = 150'000}; }},
      {"DominantGradient", 20, [](Network& n) { n.plant[n.weight(2)] = {.absmax = 60'000, .rms = 30'000, .numel = 200'000}; },
       Kind::kPlain, Severity::kInfo},
      {"OptimizerStateUnderflow", 20, [](Network& n) { n.plant[n.state(3)] = {.numel = 200'000, .zero = 120'000}; }},
      {"LostUpdates", 3, [](Network& n) { n.plant[n.parameter(2)] = {.absmax = 40, .rms = 8, .numel = 200'000}; },
       Kind::kNarrowWeights},
      {"Fp8Saturation", 20, [](Network& n) { n.plant[n.act(2)] = {.absmax = 900, .numel = 50'000, .over = 12}; }, Kind::kFp8},
  };
  for (const Plant& plant : plants) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      if (seed % 4 == 3) continue;  // bf16 has the range
      Network network(seed, plant.kind);
      network.run(300);
      network.driver().run.events.clear();
      plant.put(network);
      network.run((plant.samples + 2) * (seed % 5 == 0 ? 10 : 1));  // an overflowed attempt or two is no sample
      const Finding* finding = network.driver().find(plant.rule);
      ASSERT_NE(finding, nullptr) << plant.rule << " seed " << seed;
      EXPECT_GE(finding->severity, plant.severity) << plant.rule << " seed " << seed << ": " << finding->summary;
      EXPECT_EQ(finding->blame->tensor, network.driver().table[network.plant.begin()->first].name);
    }
  }
}

}  // namespace
}  // namespace scalewatch::domain
