// Random networks for the tests of blame: what they compute, step by step, in fp16.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace scalewatch::domain::graphs {

using Half = _Float16;
using Values = std::vector<Half>;  // kBatch rows of kWidth

constexpr std::size_t kBatch = 3;
constexpr std::size_t kWidth = 8;
constexpr std::size_t kSize = kBatch * kWidth;

enum class Op : std::uint8_t {
  kLinear,    // a W, summed in fp32
  kAdd,       // a + b
  kMul,       // a * b
  kRelu,      // max(a, 0)
  kSoftsign,  // a / (1 + |a|)
  kShift,     // (a - m) / s
  kLog,       // log(|a| + c)
  kMask,      // a + mask, of zeros and -Inf; a softmax follows
  kSoftmax,   // over a row
  kCentre,    // a less its running mean, which the forward pass moves
};
constexpr std::size_t kOps = 10;

struct Node {
  static constexpr std::size_t kInput = SIZE_MAX;

  Op op = Op::kLinear;
  std::size_t a = kInput;  // node that it reads, or the input
  std::size_t b = kInput;  // the second, where the operation has two
  std::string name;
};

// Nodes in the order that they are computed; a node's place is its forward index. The last one is what the loss reads, and
// every node's value reaches it.
struct Graph {
  std::vector<Node> nodes;

  [[nodiscard]] bool two(std::size_t node) const { return nodes[node].op == Op::kAdd || nodes[node].op == Op::kMul; }
  [[nodiscard]] bool weighted(std::size_t node) const { return nodes[node].op == Op::kLinear; }
  [[nodiscard]] std::size_t last() const { return nodes.size() - 1; }
  [[nodiscard]] std::string text() const;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) { return engine_() % limit; }
  bool chance(unsigned percent) { return below(100) < percent; }
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(engine_() >> 11U) * 0x1p-53; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::mt19937_64 engine_;
};

// With `masks`, at least one attention mask is in it.
Graph random_graph(Random& random, bool masks);

}  // namespace scalewatch::domain::graphs
