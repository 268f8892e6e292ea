#include "tests/unit/domain/graphs/scenario.h"

#include <algorithm>
#include <cmath>

namespace scalewatch::domain::graphs {
namespace {

constexpr double kNan = NAN;
constexpr double kInf = INFINITY;

std::vector<bool> some(Random& random, std::size_t count, unsigned percent) {
  std::vector<bool> chosen(count);
  for (std::size_t i = 0; i < count; ++i) chosen[i] = random.chance(percent);
  return chosen;
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) { scenario_.seed = seed; }

  Scenario run() {
    scenario_.graph = random_graph(random_, random_.chance(40));
    Setup& setup = scenario_.setup;
    setup.ranks = random_.chance(25) ? 1 : 2 + static_cast<std::uint32_t>(random_.below(7));
    setup.micros = random_.chance(25) ? 2 + static_cast<std::uint32_t>(random_.below(3)) : 1;
    setup.sharded = setup.ranks > 1 && random_.chance(25);
    setup.pre_divide = random_.chance(30);
    setup.scaler = random_.chance(80);
    setup.init_scale = std::exp2(static_cast<double>(2 + random_.below(5)));
    scenario_.healthy = random_.chance(20) ? 25 : 1 + random_.below(4);
    watch();
    scenario_.faults.push_back(fault());
    if (random_.chance(20)) scenario_.faults.push_back(fault());
    return std::move(scenario_);
  }

 private:
  void watch() {
    Watch& watch = scenario_.watch;
    const std::size_t count = scenario_.graph.nodes.size();
    watch.hidden.assign(count, false);
    watch.hidden_weight.assign(count, false);
    watch.local = scenario_.setup.sharded || random_.chance(60)
                      ? Watch::FoundInf::kAfter
                      : (random_.chance(80) ? Watch::FoundInf::kBefore : Watch::FoundInf::kAbsent);
    if (random_.chance(60)) {  // roles that are not collected
      for (bool* role :
           {&watch.input, &watch.loss, &watch.activations, &watch.activation_gradients, &watch.gradients, &watch.state}) {
        *role = random_.chance(70);
      }
    }
    if (random_.chance(40)) {
      watch.hidden = some(random_, count, 30);
      watch.hidden_weight = some(random_, count, 30);
    }
    watch.leader = scenario_.setup.ranks > 1 && random_.chance(30);
    watch.late = random_.chance(15);
    watch.told_twice = random_.chance(20);
  }

  Fault fault() {
    const Graph& graph = scenario_.graph;
    Fault fault;
    fault.place = static_cast<Place>(random_.below(kPlaces));
    const auto node_where = [&](auto suits) {
      std::vector<std::size_t> nodes;
      for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        if (suits(i)) nodes.push_back(i);
      }
      return nodes;
    };
    std::vector<std::size_t> nodes = node_where([](std::size_t) { return true; });
    const bool of_weight = fault.place == Place::kWeight || fault.place == Place::kWeightWrite ||
                           fault.place == Place::kOptimizerState || fault.place == Place::kGradient ||
                           fault.place == Place::kReduction;
    if (of_weight) nodes = node_where([&](std::size_t i) { return graph.weighted(i); });
    if (fault.place == Place::kBufferWrite) nodes = node_where([&](std::size_t i) { return graph.nodes[i].op == Op::kCentre; });
    if (nodes.empty()) {
      fault.place = Place::kActivation;
      nodes = node_where([](std::size_t) { return true; });
    }
    fault.node = random_.pick(nodes);
    fault.element = random_.below(of_weight ? kWidth * kWidth : kSize);
    fault.value = random_.chance(50) ? kNan : (random_.chance(70) ? kInf : -kInf);
    fault.micro = static_cast<std::uint32_t>(random_.below(scenario_.setup.micros));
    if (of_weight && fault.place != Place::kGradient) fault.micro = 0;  // there from the first on
    compute(fault);
    ranks(fault, of_weight);
    return fault;
  }

  void compute(Fault& fault) {
    if (fault.place == Place::kBufferWrite) fault.micro = scenario_.setup.micros - 1;
    if (fault.place == Place::kReduction) fault.value = kInf;
    const Op op = scenario_.graph.nodes[fault.node].op;
    if (op == Op::kMask && masked(fault.element % kWidth)) --fault.element;
    if (!random_.chance(50)) return;
    if (fault.place == Place::kActivationGradient) {
      fault.computed = true;
      fault.value = kInf;
    }
    if (fault.place != Place::kActivation) return;
    if (op == Op::kAdd || op == Op::kMul || op == Op::kLinear) fault.value = kInf;
    if (op == Op::kShift || op == Op::kLog) fault.value = kNan;
    fault.computed = op == Op::kAdd || op == Op::kMul || op == Op::kLinear || op == Op::kShift || op == Op::kLog;
  }

  void ranks(Fault& fault, bool of_weight) {
    const std::uint32_t count = scenario_.setup.ranks;
    const bool all = fault.place == Place::kReduction || random_.chance(20);
    const bool one = random_.chance(75);
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < count; ++rank) ranks.push_back(rank);
    if (!all) {
      random_.shuffle(ranks);
      ranks.resize(one ? 1 : 1 + random_.below(count));
      std::sort(ranks.begin(), ranks.end());
    }
    // Of a sharded weight only its owner can hold a bad element.
    if (scenario_.setup.sharded && of_weight && fault.place != Place::kGradient && fault.place != Place::kReduction) {
      ranks.clear();
      for (Rank rank = 0; rank < count; ++rank) {
        if (fault.element >= kWidth * kWidth * rank / count && fault.element < kWidth * kWidth * (rank + 1) / count)
          ranks = {rank};
      }
    }
    fault.ranks = ranks;
  }

  Random random_;
  Scenario scenario_;
};

}  // namespace

std::string Scenario::text() const {
  std::string text = "seed " + std::to_string(seed) + ": " + std::to_string(setup.ranks) + " ranks, " +
                     std::to_string(setup.micros) + " micro-batches" + (setup.sharded ? ", sharded" : "") +
                     (setup.pre_divide ? ", pre-divided" : "") + (setup.scaler ? "" : ", no scaler") + ", " +
                     std::to_string(healthy) + " healthy attempts\n";
  for (const Fault& fault : faults) text += "fault: " + fault.text() + "\n";
  text += "told:";
  const auto say = [&](bool told, const char* what) { text += told ? std::string(" ") + what : std::string(); };
  say(watch.input, "input");
  say(watch.loss, "loss");
  say(watch.activations, "activations");
  say(watch.activation_gradients, "activation-gradients");
  say(watch.gradients, "gradients");
  say(watch.state, "state");
  say(watch.local == Watch::FoundInf::kBefore, "found_inf-before");
  say(watch.local == Watch::FoundInf::kAfter, "found_inf-after");
  say(watch.leader, "leader");
  say(watch.late, "late");
  say(watch.told_twice, "twice");
  text += "\nhidden:";
  for (std::size_t i = 0; i < watch.hidden.size(); ++i) {
    if (watch.hidden[i]) text += " " + std::to_string(i);
    if (watch.hidden_weight[i] && graph.weighted(i)) text += " " + std::to_string(i) + ".weight";
  }
  return text + "\n" + graph.text();
}

Scenario draw(std::uint64_t seed) {
  return Draw(seed).run();
}

}  // namespace scalewatch::domain::graphs
