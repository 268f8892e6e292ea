#include "tests/unit/domain/graphs/reach.h"

#include <algorithm>
#include <cmath>

namespace scalewatch::domain::graphs {
namespace {

Taint taint_of(double value) {
  if (std::isnan(value)) return Taint::kNan;
  return value > 0 ? Taint::kPlusInf : Taint::kMinusInf;
}
// Of what is certain the sign and kind get lost: a product with values of either sign, zeros among them.
Taint mixed(Taint taint) {
  return certain(taint) && taint != Taint::kNan ? Taint::kMixed : taint;
}
Taint weaken(Taint taint) {
  return certain(taint) ? Taint::kMaybe : taint;
}
// A sum of both: Inf and -Inf make NaN, finite ones nothing else of either.
Taint sum(Taint a, Taint b) {
  if (a == Taint::kNan || b == Taint::kNan) return Taint::kNan;
  if (a == Taint::kClean) return b;
  if (b == Taint::kClean) return a;
  return certain(a) || certain(b) ? Taint::kMixed : Taint::kMaybe;
}

class Spread {
 public:
  explicit Spread(const Graph& graph) : graph_(graph), poisoned_(graph.nodes.size(), false) {
    const std::size_t count = graph.nodes.size();
    reach_.activation.assign(count, Taint::kClean);
    reach_.buffer = reach_.activation_gradient = reach_.gradient = reach_.activation;
  }

  Reach of(const Fault& fault) {
    fault_ = &fault;
    if (fault.place == Place::kWeight) {
      poisoned_[fault.node] = true;
      poison_ = mixed(taint_of(fault.value));
    }
    return run();
  }

 private:
  [[nodiscard]] bool at(Place place, std::size_t node) const {
    return fault_ != nullptr && fault_->place == place && fault_->node == node;
  }
  [[nodiscard]] bool at(Place place) const { return fault_ != nullptr && fault_->place == place; }
  [[nodiscard]] Taint value(std::size_t node) const {
    if (node != Node::kInput) return reach_.activation[node];
    return at(Place::kInput) ? taint_of(fault_->value) : Taint::kClean;
  }

  Reach run() {
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) reach_.activation[node] = forward(node);
    const Taint last = reach_.activation.back();
    reach_.loss = mixed(last);
    if (at(Place::kLoss)) reach_.loss = taint_of(fault_->value);
    Taint& begin = reach_.activation_gradient.back();
    begin = mixed(last);
    if (at(Place::kLabel)) reach_.loss = begin = mixed(taint_of(fault_->value));
    for (std::size_t node = graph_.nodes.size(); node-- > 0;) {
      if (at(Place::kActivationGradient, node)) reach_.activation_gradient[node] = taint_of(fault_->value);
      backward(node);
      if (at(Place::kGradient, node)) reach_.gradient[node] = taint_of(fault_->value);
      if (at(Place::kReduction, node)) reach_.gradient[node] = Taint::kPlusInf;
    }
    return std::move(reach_);
  }

  Taint forward(std::size_t node) {
    const Node& n = graph_.nodes[node];
    const Taint a = value(n.a);
    if (n.op == Op::kCentre) reach_.buffer[node] = at(Place::kBufferWrite, node) ? taint_of(fault_->value) : mixed(a);
    if (at(Place::kActivation, node)) return taint_of(fault_->value);
    switch (n.op) {
      case Op::kLinear:
        return poisoned_[node] ? sum(poison_, mixed(a)) : mixed(a);
      case Op::kAdd:
        return sum(a, value(n.b));
      case Op::kMul:
        return sum(mixed(a), mixed(value(n.b)));
      case Op::kRelu:
        if (a == Taint::kMinusInf) return Taint::kClean;
        return a == Taint::kMixed ? Taint::kMaybe : a;
      case Op::kSoftsign:  // Inf / Inf
        return certain(a) ? Taint::kNan : a;
      case Op::kLog:
        return a == Taint::kMinusInf ? Taint::kPlusInf : a;
      case Op::kMask:
        return a == Taint::kMinusInf ? a : mixed(a);
      case Op::kSoftmax:  // Inf - Inf; a -Inf becomes 0
        if (a == Taint::kPlusInf) return Taint::kNan;
        return a == Taint::kNan ? a : weaken(a);
      case Op::kShift:
      case Op::kCentre:
        return a;
    }
    return a;
  }

  void give(std::size_t node, Taint taint) {
    if (node == Node::kInput) return;
    Taint& at = reach_.activation_gradient[node];
    at = sum(at, taint);
  }

  void backward(std::size_t node) {
    const Node& n = graph_.nodes[node];
    const Taint dy = reach_.activation_gradient[node];
    const Taint a = value(n.a);
    switch (n.op) {
      case Op::kLinear:
        reach_.gradient[node] = sum(mixed(dy), mixed(a));
        give(n.a, poisoned_[node] && !certain(dy) ? Taint::kMaybe : mixed(dy));
        break;
      case Op::kAdd:
        give(n.a, dy);
        give(n.b, dy);
        break;
      case Op::kMul:
        give(n.a, factor(dy, value(n.b)));
        give(n.b, factor(dy, a));
        break;
      case Op::kRelu:
        give(n.a, weaken(dy));
        break;
      case Op::kSoftsign:
      case Op::kLog:
        give(n.a, factor(dy, a));
        break;
      case Op::kSoftmax:
        give(n.a, factor(dy, reach_.activation[node]));
        break;
      case Op::kShift:
      case Op::kMask:
      case Op::kCentre:
        give(n.a, dy);
        break;
    }
  }
  // A product of the gradient and something made of a forward value.
  static Taint factor(Taint dy, Taint forward) {
    if (forward == Taint::kClean) return mixed(dy);
    return dy == Taint::kNan ? Taint::kNan : Taint::kMaybe;
  }

  const Graph& graph_;
  const Fault* fault_ = nullptr;
  std::vector<bool> poisoned_;
  Taint poison_ = Taint::kMixed;
  Reach reach_;
};

}  // namespace

bool Reach::skips() const {
  return std::any_of(gradient.begin(), gradient.end(), certain);
}
bool Reach::may_skip() const {
  return std::any_of(gradient.begin(), gradient.end(), [](Taint taint) { return taint != Taint::kClean; });
}

Reach reach_of(const Graph& graph, const Fault& fault) {
  return Spread(graph).of(fault);
}

}  // namespace scalewatch::domain::graphs
