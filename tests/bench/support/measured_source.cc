#include <cmath>
#include <random>
#include <string>

#include "tests/bench/support/load_source.h"

namespace scalewatch::bench {
namespace {

constexpr std::size_t kElements = 64;  // of a tensor
constexpr std::size_t kPool = 1U << 20;
constexpr double kScale = 65536;

struct Pool {
  std::vector<float> singles = std::vector<float>(kPool);
  std::vector<_Float16> halves = std::vector<_Float16>(kPool);

  Pool() {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < kPool; ++i) {
      // Magnitudes over some octaves, as gradients have them.
      singles[i] = normal(random) * std::exp2(static_cast<float>(i / 4096 % 16) - 8);
      halves[i] = static_cast<_Float16>(singles[i]);
    }
  }
};

// Of ten tensors five are gradients, three activations and two parameters.
class Measured final : public LoadSource {
 public:
  Measured(std::uint32_t tensors, std::uint32_t rank) : count_(tensors), random_(rank + 1) {}

  void declare(Monitor& monitor) override {
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::uint32_t kind = i * 10 / count_;
      TensorOptions options;
      options.role = kind < 5 ? SCALEWATCH_GRADIENT : kind < 8 ? SCALEWATCH_ACTIVATION : SCALEWATCH_PARAMETER;
      options.dtype = options.role == SCALEWATCH_PARAMETER ? SCALEWATCH_FP32 : SCALEWATCH_FP16;
      options.name = "layers." + std::to_string(i % 500) + ".block.weight";
      options.numel = kElements;
      options.forward_index = i % 500;
      tensors_.push_back({monitor.add_tensor(options), options.role});
    }
  }
  void observe(Monitor& monitor) override {
    static const Pool pool;
    for (const Tensor& tensor : tensors_) {
      const std::size_t at = random_() % (kPool - kElements);
      const void* data = tensor.role == SCALEWATCH_PARAMETER ? static_cast<const void*>(&pool.singles[at]) : &pool.halves[at];
      monitor.observe(tensor.id, data, kElements, tensor.role == SCALEWATCH_GRADIENT ? kScale : 1);
    }
  }
  [[nodiscard]] double scale() const override { return kScale; }

 private:
  struct Tensor {
    Monitor::TensorId id = 0;
    scalewatch_role role = SCALEWATCH_GRADIENT;
  };
  const std::uint32_t count_;
  std::minstd_rand random_;
  std::vector<Tensor> tensors_;
};

}  // namespace

std::unique_ptr<LoadSource> make_measured_source(std::uint32_t tensors, std::uint32_t rank) {
  return std::make_unique<Measured>(tensors, rank);
}

}  // namespace scalewatch::bench
