#include "tests/unit/domain/graphs/pass.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace scalewatch::domain::graphs {
namespace {

constexpr float kMean = 0.125F;  // of kShift
constexpr float kSpread = 2;
constexpr float kOffset = 1;  // of kLog

Half half(float x) {
  return static_cast<Half>(x);
}
float wide(Half x) {
  return static_cast<float>(x);
}

class Runner {
 public:
  Runner(const Graph& graph, Weights& weights, double scale, const std::vector<Fault>& faults)
      : graph_(graph), weights_(weights), scale_(scale), faults_(faults) {}

  Pass run(Values input, const Values& labels) {
    for (const Fault& fault : faults_) {
      if (fault.place == Place::kInput) input[fault.element] = static_cast<Half>(fault.value);
    }
    pass_.input_non_finite = std::any_of(input.begin(), input.end(), [](Half x) { return !std::isfinite(wide(x)); });
    input_ = std::move(input);
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
      pass_.out.push_back(forward(node));
      for (const Fault& fault : faults_) {
        if (fault.place == Place::kActivation && fault.node == node && !fault.computed) {
          pass_.out.back()[fault.element] = static_cast<Half>(fault.value);
        }
      }
    }
    backward(labels);
    return std::move(pass_);
  }

 private:
  const Values& value(std::size_t node) const { return node == Node::kInput ? input_ : pass_.out[node]; }

  const Fault* computed_at(std::size_t node) const {
    for (const Fault& fault : faults_) {
      if (fault.place == Place::kActivation && fault.node == node && fault.computed) return &fault;
    }
    return nullptr;
  }

  Values forward(std::size_t node) {
    const Node& n = graph_.nodes[node];
    Values x = value(n.a);
    Values y = graph_.two(node) ? value(n.b) : Values();
    const Fault* fault = computed_at(node);
    float mean = kMean;
    float spread = kSpread;
    float offset = kOffset;
    if (fault != nullptr) {  // finite operands, of which the operation makes what is not
      const std::size_t e = fault->element;
      if (n.op == Op::kAdd) x[e] = y[e] = half(60000);
      if (n.op == Op::kMul) x[e] = y[e] = half(300);
      if (n.op == Op::kShift) mean = wide(x[e]), spread = 0;
      if (n.op == Op::kLog) offset = -wide(half(std::fabs(wide(x[e])) + 1));
      if (n.op == Op::kLinear) {
        const std::size_t column = e % kWidth;
        for (std::size_t i = 0; i < kWidth; ++i) {
          const float w = wide(weights_.weight[node][i * kWidth + column]);
          x[e / kWidth * kWidth + i] = half(w < 0 ? -65504 : 65504);
        }
      }
    }
    Values out(kSize);
    switch (n.op) {
      case Op::kLinear:
        return multiply(x, weights_.weight[node]);
      case Op::kAdd:
        for (std::size_t i = 0; i < kSize; ++i) out[i] = static_cast<Half>(x[i] + y[i]);
        break;
      case Op::kMul:
        for (std::size_t i = 0; i < kSize; ++i) out[i] = static_cast<Half>(x[i] * y[i]);
        break;
      case Op::kRelu:
        for (std::size_t i = 0; i < kSize; ++i) out[i] = x[i] < Half(0) ? Half(0) : x[i];
        break;
      case Op::kSoftsign:
        for (std::size_t i = 0; i < kSize; ++i) out[i] = half(wide(x[i]) / (1 + std::fabs(wide(x[i]))));
        break;
      case Op::kShift:
        for (std::size_t i = 0; i < kSize; ++i) out[i] = half((wide(x[i]) - mean) / spread);
        break;
      case Op::kLog:
        for (std::size_t i = 0; i < kSize; ++i) out[i] = half(std::log(std::fabs(wide(x[i])) + offset));
        break;
      case Op::kMask:
        for (std::size_t i = 0; i < kSize; ++i) out[i] = static_cast<Half>(x[i] + half(masked(i % kWidth) ? -INFINITY : 0));
        break;
      case Op::kSoftmax:
        return softmax(x);
      case Op::kCentre:
        return centre(node, x);
    }
    return out;
  }

  static Values multiply(const Values& x, const Values& w) {
    Values out(kSize);
    for (std::size_t row = 0; row < kBatch; ++row) {
      for (std::size_t column = 0; column < kWidth; ++column) {
        float sum = 0;
        for (std::size_t i = 0; i < kWidth; ++i) sum += wide(x[row * kWidth + i]) * wide(w[i * kWidth + column]);
        out[row * kWidth + column] = half(sum);
      }
    }
    return out;
  }

  static Values softmax(const Values& x) {
    Values out(kSize);
    for (std::size_t row = 0; row < kSize; row += kWidth) {
      float top = -INFINITY;
      for (std::size_t i = 0; i < kWidth; ++i) top = std::max(top, wide(x[row + i]));
      float total = 0;
      for (std::size_t i = 0; i < kWidth; ++i) total += std::exp(wide(x[row + i]) - top);
      for (std::size_t i = 0; i < kWidth; ++i) out[row + i] = half(std::exp(wide(x[row + i]) - top) / total);
    }
    return out;
  }

  Values centre(std::size_t node, const Values& x) {
    std::vector<float>& running = weights_.running[node];
    Values out(kSize);
    for (std::size_t i = 0; i < kSize; ++i) out[i] = half(wide(x[i]) - running[i % kWidth]);
    for (std::size_t column = 0; column < kWidth; ++column) {
      float sum = 0;
      for (std::size_t row = 0; row < kBatch; ++row) sum += wide(x[row * kWidth + column]);
      running[column] = 0.9F * running[column] + 0.1F * sum / static_cast<float>(kBatch);
    }
    for (const Fault& fault : faults_) {
      if (fault.place == Place::kBufferWrite && fault.node == node)
        running[fault.element % kWidth] = static_cast<float>(fault.value);
    }
    return out;
  }

  // Of the mean square distance from the labels.
  void backward(Values labels) {
    for (const Fault& fault : faults_) {
      if (fault.place == Place::kLabel) labels[fault.element] = static_cast<Half>(fault.value);
    }
    const std::size_t count = graph_.nodes.size();
    pass_.gradient.assign(count, Values(kSize));
    pass_.weight_gradient.resize(count);
    const Values& y = pass_.out.back();
    double loss = 0;
    for (std::size_t i = 0; i < kSize; ++i) {
      const float distance = wide(y[i]) - wide(labels[i]);
      loss += static_cast<double>(distance) * static_cast<double>(distance);
      pass_.gradient.back()[i] = half(distance * static_cast<float>(2 * scale_ / static_cast<double>(kSize)));
    }
    pass_.loss = loss / static_cast<double>(kSize);
    for (const Fault& fault : faults_) {
      if (fault.place == Place::kLoss) pass_.loss = fault.value;
    }
    for (std::size_t node = count; node-- > 0;) {
      for (const Fault& fault : faults_) {
        if (fault.place != Place::kActivationGradient || fault.node != node) continue;
        Half& at = pass_.gradient[node][fault.element];
        at = fault.computed ? static_cast<Half>(half(300) * half(300)) : static_cast<Half>(fault.value);
      }
      through(node);
      for (const Fault& fault : faults_) {
        if (fault.place == Place::kGradient && fault.node == node) {
          pass_.weight_gradient[node][fault.element] = static_cast<Half>(fault.value);
        }
      }
    }
  }

  void give(std::size_t node, std::size_t element, float gradient) {
    if (node == Node::kInput) return;
    Half& at = pass_.gradient[node][element];
    at = static_cast<Half>(at + half(gradient));
  }

  void through(std::size_t node) {
    const Node& n = graph_.nodes[node];
    const Values& dy = pass_.gradient[node];
    const Values& x = value(n.a);
    if (n.op == Op::kLinear) return through_linear(node);
    if (n.op == Op::kSoftmax) return through_softmax(node);
    for (std::size_t i = 0; i < kSize; ++i) {
      const float g = wide(dy[i]);
      switch (n.op) {
        case Op::kAdd:
          give(n.a, i, g);
          give(n.b, i, g);
          break;
        case Op::kMul:
          give(n.a, i, g * wide(value(n.b)[i]));
          give(n.b, i, g * wide(x[i]));
          break;
        case Op::kRelu:
          give(n.a, i, x[i] <= Half(0) ? 0 : g);
          break;
        case Op::kSoftsign:
          give(n.a, i, g / ((1 + std::fabs(wide(x[i]))) * (1 + std::fabs(wide(x[i])))));
          break;
        case Op::kShift:
          give(n.a, i, g / kSpread);
          break;
        case Op::kLog:
          give(n.a, i, std::copysign(1.0F, wide(x[i])) * g / (std::fabs(wide(x[i])) + kOffset));
          break;
        default:  // what adds a constant
          give(n.a, i, g);
          break;
      }
    }
  }

  void through_linear(std::size_t node) {
    const Node& n = graph_.nodes[node];
    const Values& dy = pass_.gradient[node];
    const Values& x = value(n.a);
    const Values& w = weights_.weight[node];
    Values& dw = pass_.weight_gradient[node];
    dw.resize(kWidth * kWidth);
    for (std::size_t i = 0; i < kWidth; ++i) {
      for (std::size_t column = 0; column < kWidth; ++column) {
        float sum = 0;
        for (std::size_t row = 0; row < kBatch; ++row) sum += wide(x[row * kWidth + i]) * wide(dy[row * kWidth + column]);
        dw[i * kWidth + column] = half(sum);
      }
      for (std::size_t row = 0; row < kBatch; ++row) {
        float sum = 0;
        for (std::size_t column = 0; column < kWidth; ++column)
          sum += wide(dy[row * kWidth + column]) * wide(w[i * kWidth + column]);
        give(n.a, row * kWidth + i, sum);
      }
    }
  }

  void through_softmax(std::size_t node) {
    const Values& y = pass_.out[node];
    const Values& dy = pass_.gradient[node];
    for (std::size_t row = 0; row < kSize; row += kWidth) {
      float dot = 0;
      for (std::size_t i = 0; i < kWidth; ++i) dot += wide(dy[row + i]) * wide(y[row + i]);
      for (std::size_t i = 0; i < kWidth; ++i)
        give(graph_.nodes[node].a, row + i, wide(y[row + i]) * (wide(dy[row + i]) - dot));
    }
  }

  const Graph& graph_;
  Weights& weights_;
  double scale_;
  const std::vector<Fault>& faults_;
  Values input_;
  Pass pass_;
};

}  // namespace

bool masked(std::size_t column) {
  return column % 4 == 3;
}

Pass run_pass(const Graph& graph, Weights& weights, Values input, Values labels, double scale,
              const std::vector<Fault>& faults) {
  return Runner(graph, weights, scale, faults).run(std::move(input), labels);
}

}  // namespace scalewatch::domain::graphs
