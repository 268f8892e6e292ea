#include "tests/unit/domain/graphs/graph.h"

#include <array>
#include <utility>

namespace scalewatch::domain::graphs {
namespace {

constexpr std::array<const char*, kOps> kNames{"linear", "add", "mul",  "relu",    "softsign",
                                               "shift",  "log", "mask", "softmax", "centre"};

class Builder {
 public:
  Builder(Random& random, bool masks) : random_(random), masks_(masks) {}

  Graph build() {
    const std::size_t wanted = 4 + random_.below(12);
    add(Op::kLinear, Node::kInput);
    if (masks_) masked_softmax();
    while (graph_.nodes.size() < wanted) grow();
    // What nobody reads yet joins at the end.
    std::vector<std::size_t> loose;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (readers_[i] == 0) loose.push_back(i);
    }
    random_.shuffle(loose);
    std::size_t joined = loose.front();
    for (std::size_t i = 1; i < loose.size(); ++i) joined = add(Op::kAdd, joined, loose[i]);
    if (random_.chance(70)) add(Op::kLinear, joined);
    // Names that say nothing of the order.
    std::vector<std::size_t> numbers(graph_.nodes.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    random_.shuffle(numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      graph_.nodes[i].name =
          std::string("m") + std::to_string(numbers[i]) + "." + kNames[static_cast<std::size_t>(graph_.nodes[i].op)];
    }
    return std::move(graph_);
  }

 private:
  std::size_t add(Op op, std::size_t a, std::size_t b = Node::kInput) {
    graph_.nodes.push_back({op, a, b, {}});
    readers_.push_back(0);
    if (a != Node::kInput) ++readers_[a];
    if (b != Node::kInput) ++readers_[b];
    return graph_.nodes.size() - 1;
  }
  std::size_t masked_softmax() { return add(Op::kSoftmax, add(Op::kMask, source())); }

  // A node to read, mostly a late one; what is masked only its softmax may read.
  std::size_t source() {
    while (true) {
      const std::size_t count = graph_.nodes.size();
      const std::size_t node =
          random_.chance(60) ? count - 1 - random_.below(std::min<std::size_t>(2, count)) : random_.below(count);
      if (graph_.nodes[node].op != Op::kMask) return node;
    }
  }
  // Small enough that products and sums of such stay small.
  std::size_t bounded() { return add(Op::kSoftsign, source()); }

  void grow() {
    switch (random_.below(9)) {
      case 0:
      case 1:
        add(Op::kLinear, random_.chance(10) ? Node::kInput : source());
        break;
      case 2:
        add(Op::kAdd, source(), source());
        break;
      case 3: {
        const std::size_t left = bounded();
        add(Op::kMul, left, source());
        break;
      }
      case 4:
        add(Op::kRelu, source());
        break;
      case 5:
        add(Op::kShift, source());
        break;
      case 6:
        add(Op::kLog, source());
        break;
      case 7:
        if (masks_ && random_.chance(50)) {
          masked_softmax();
        } else {
          add(Op::kSoftmax, source());
        }
        break;
      default:
        add(Op::kCentre, source());
        break;
    }
  }

  Random& random_;
  bool masks_;
  Graph graph_;
  std::vector<std::size_t> readers_;
};

}  // namespace

std::string Graph::text() const {
  std::string text;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto source = [](std::size_t node) { return node == Node::kInput ? std::string("input") : std::to_string(node); };
    text +=
        std::to_string(i) + " " + nodes[i].name + "(" + source(nodes[i].a) + (two(i) ? ", " + source(nodes[i].b) : "") + ")\n";
  }
  return text;
}

Graph random_graph(Random& random, bool masks) {
  return Builder(random, masks).build();
}

}  // namespace scalewatch::domain::graphs
