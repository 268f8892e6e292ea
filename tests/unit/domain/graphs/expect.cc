// The answer, from where the faults were planted.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "tests/unit/domain/graphs/scenario.h"

namespace scalewatch::domain::graphs {
namespace {

// The order in which values come to be within a step. A later stage can be no cause of an earlier one.
enum class Stage : std::uint8_t { kState, kInput, kForward, kLoss, kBackward, kStep };

constexpr std::size_t kMaskSamples = 20;  // a tensor without -Inf in so many is no mask

struct Site {
  std::tuple<std::uint32_t, Stage, std::size_t> when;  // micro-batch, stage, place in it
  Role role = Role::kUnspecified;                      // unspecified: the input or the loss
  std::size_t node = 0;
  Taint taint = Taint::kClean;
  bool own = false;  // it is what the fault was planted in
};

std::size_t first_places_last(const Graph& graph, std::size_t node) {
  return graph.nodes.size() - node;
}

// Where the value is planted, whether or not anybody looks there.
Site own_site(const Scenario& scenario, const Fault& fault) {
  const std::size_t back = 2 * first_places_last(scenario.graph, fault.node);
  const auto site = [&](Stage stage, std::size_t place, Role role) {
    return Site{{fault.micro, stage, place}, role, fault.node, Taint::kNan, true};
  };
  switch (fault.place) {
    case Place::kInput:
      return site(Stage::kInput, 0, Role::kUnspecified);
    case Place::kWeight:
      return site(Stage::kState, fault.node, Role::kParameter);
    case Place::kActivation:
      return site(Stage::kForward, 2 * fault.node, Role::kActivation);
    case Place::kBufferWrite:
      return site(Stage::kForward, 2 * fault.node + 1, Role::kBuffer);
    case Place::kLoss:
    case Place::kLabel:
      return site(Stage::kLoss, 0, Role::kUnspecified);
    case Place::kActivationGradient:
      return site(Stage::kBackward, back, Role::kActivationGradient);
    case Place::kGradient:
    case Place::kReduction:
      return site(Stage::kBackward, back + 1, Role::kGradient);
    case Place::kOptimizerState:
      return site(Stage::kStep, fault.node, Role::kOptimizerState);
    case Place::kWeightWrite:
      return site(Stage::kStep, scenario.graph.nodes.size() + fault.node, Role::kParameter);
  }
  return {};
}

bool role_told(const Watch& watch, const Site& site) {
  switch (site.role) {
    case Role::kUnspecified:
      return std::get<Stage>(site.when) == Stage::kInput ? watch.input : watch.loss;
    case Role::kActivation:
      return watch.activations;
    case Role::kActivationGradient:
      return watch.activation_gradients;
    case Role::kGradient:
      return watch.gradients;
    default:
      return watch.state;
  }
}
bool told(const Watch& watch, const Site& site) {
  if (!role_told(watch, site)) return false;
  switch (site.role) {
    case Role::kActivation:
    case Role::kActivationGradient:
      return !watch.hidden[site.node];
    case Role::kGradient:
    case Role::kParameter:
    case Role::kOptimizerState:
      return !watch.hidden_weight[site.node];
    default:
      return true;
  }
}

// Every tensor that the fault may show in at this attempt, told or not.
std::vector<Site> sites_of(const Scenario& scenario, const Fault& fault) {
  const Reach reach = reach_in(scenario, fault);
  std::vector<Site> sites;
  const Site own = own_site(scenario, fault);
  if (own.role == Role::kParameter || own.role == Role::kOptimizerState || fault.place == Place::kInput) sites.push_back(own);
  const auto add = [&](Stage stage, std::size_t place, Role role, std::size_t node, Taint taint) {
    Site site{{fault.micro, stage, place}, role, node, taint, false};
    site.own = site.when == own.when;
    if (taint != Taint::kClean) sites.push_back(site);
  };
  for (std::size_t node = 0; node < scenario.graph.nodes.size(); ++node) {
    const std::size_t back = 2 * first_places_last(scenario.graph, node);
    add(Stage::kForward, 2 * node, Role::kActivation, node, reach.activation[node]);
    add(Stage::kForward, 2 * node + 1, Role::kBuffer, node, reach.buffer[node]);
    add(Stage::kBackward, back, Role::kActivationGradient, node, reach.activation_gradient[node]);
    add(Stage::kBackward, back + 1, Role::kGradient, node, reach.gradient[node]);
  }
  add(Stage::kLoss, 0, Role::kUnspecified, 0, reach.loss);
  return sites;
}

const char* what_is_missing(Place place) {
  constexpr std::array<const char*, kPlaces> kNeeded{
      "the input", "parameters",           "parameters", "optimizer state",     "buffers", "activations", "the loss",
      "the loss",  "activation gradients", "gradient",   "before the reduction"};
  return kNeeded[static_cast<std::size_t>(place)];
}

class Answer {
 public:
  explicit Answer(const Scenario& scenario) : s_(scenario), watch_(scenario.watch) {}

  std::optional<Expectation> run() {
    if (!arithmetic_is_certain()) return std::nullopt;
    if (!first_site()) return std::nullopt;
    if (!found_) return nothing_told();
    const bool speaks = first_.role == Role::kActivation
                            ? !watch_.late
                            : first_.role != Role::kActivationGradient && std::get<Stage>(first_.when) != Stage::kInput;
    if (!speaks && !s_.setup.scaler && !consequences_told()) return std::nullopt;
    Expectation out;
    switch (std::get<Stage>(first_.when)) {
      case Stage::kState:
        out.where = "weights";
        break;
      case Stage::kInput:
        out.where = "input";
        break;
      case Stage::kForward:
        out.where = "forward";
        break;
      case Stage::kLoss:
        out.where = "loss";
        break;
      case Stage::kBackward:
        out.where = "backward";
        break;
      case Stage::kStep:
        out.where = s_.setup.scaler || watch_.gradients ? "optimizer" : "weights";
        if (out.where == "weights") out.note.emplace_back("gradient records");
        if (out.where == "weights" && s_.faults.size() > 1) return std::nullopt;  // either may have been first
        break;
    }
    if (first_.role != Role::kUnspecified) out.tensor = name(first_);
    out.role = first_.role;
    const bool flows =
        first_.role == Role::kUnspecified || first_.role == Role::kActivation || first_.role == Role::kActivationGradient;
    out.ranks = {ranks_.begin(), ranks_.end()};
    if (flows && ranks_.size() == 1) out.rank_of_origin = *ranks_.begin();
    if (first_.role == Role::kGradient && !gradient(out)) return std::nullopt;
    const Fault& fault = s_.faults.front();
    if (s_.faults.size() == 1 && first_.own && !fault.computed && first_.role != Role::kUnspecified) {
      out.kind = std::isnan(fault.value) ? "nan" : "inf";
    }
    if (s_.setup.micros > 1 && s_.graph.nodes[first_.node].op != Op::kMask &&
        (first_.role == Role::kActivation || first_.role == Role::kActivationGradient)) {
      out.micro = std::get<0>(first_.when);
    }
    missing(out);
    return out;
  }

 private:
  [[nodiscard]] static std::string suffix(Role role) {
    if (role == Role::kOptimizerState) return ".weight.exp_avg";
    if (role == Role::kBuffer) return ".running_mean";
    return role == Role::kGradient || role == Role::kParameter ? ".weight" : "";
  }
  [[nodiscard]] std::string name(const Site& site) const { return s_.graph.nodes[site.node].name + suffix(site.role); }
  [[nodiscard]] bool has(Place place) const {
    return std::any_of(s_.faults.begin(), s_.faults.end(), [&](const Fault& fault) { return fault.place == place; });
  }

  // Combinations that nobody could tell apart, and arithmetic that may go either way.
  bool arithmetic_is_certain() {
    const bool one = s_.faults.size() == 1;
    bool flows = false;  // some fault shows in a gradient
    for (const Fault& fault : s_.faults) {
      const Reach reach = reach_in(s_, fault);
      if (reach.may_skip() && !reach.skips()) return false;
      skips_ = skips_ || reach.skips();
      flows = flows || reach.may_skip();
      // A buffer that holds ±Inf turns signs around at the next micro-batch.
      const bool centred =
          std::any_of(s_.graph.nodes.begin(), s_.graph.nodes.end(), [](const Node& n) { return n.op == Op::kCentre; });
      if (s_.setup.micros > 1 && centred && !std::isnan(fault.value) && fault.place != Place::kReduction) return false;
      // An applied step spoils its weights whatever they were before.
      if (fault.place == Place::kWeight && (!s_.setup.scaler || !reach.skips())) return false;
    }
    // What the optimizer writes is written at applied steps.
    if ((has(Place::kWeightWrite) || has(Place::kOptimizerState)) && flows) return false;
    if (!one && has(Place::kReduction)) {
      for (const Fault& fault : s_.faults) {
        if (fault.place != Place::kReduction && reach_in(s_, fault).may_skip()) return false;
      }
    }
    if (!one && s_.faults[0].micro != s_.faults[1].micro) return in_one_place_each();
    return true;
  }
  // Of faults in different micro-batches the earlier is first, if every tensor tells when it went bad.
  bool in_one_place_each() const {
    for (const Fault& fault : s_.faults) {
      if (fault.place != Place::kActivation && fault.place != Place::kActivationGradient) return false;
      if (s_.graph.nodes[fault.node].op == Op::kMask) return false;
    }
    const auto none = [](const std::vector<bool>& hidden) {
      return std::none_of(hidden.begin(), hidden.end(), [](bool h) { return h; });
    };
    return watch_.activations && watch_.activation_gradients && none(watch_.hidden);
  }

  bool first_site() {
    std::vector<std::pair<Site, const Fault*>> all;
    for (const Fault& fault : s_.faults) {
      for (const Site& site : sites_of(s_, fault)) {
        if (told(watch_, site)) all.emplace_back(site, &fault);
      }
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first.when < b.first.when; });
    if (all.empty()) return true;
    found_ = true;
    first_ = all.front().first;
    for (const auto& [site, fault] : all) {
      // In another micro-batch it is another rank's own: no reduction lies between them.
      const bool same_tensor = site.own && site.role == first_.role && site.node == first_.node;
      if (site.when != first_.when && !same_tensor) continue;
      if (!certain(site.taint)) return false;
      first_.own = first_.own || site.own;
      ranks_.insert(fault->ranks.begin(), fault->ranks.end());
      // Every rank computes with the shard.
      const bool spread = s_.setup.sharded && fault->place == Place::kWeight && !site.own;
      for (Rank rank = 0; spread && rank < s_.setup.ranks; ++rank) ranks_.insert(rank);
    }
    if (s_.faults.size() > 1 && !first_.own) return false;  // one may have changed what the other did
    return first_.role != Role::kActivation || no_mask();
  }

  // Without a scaler a finding needs a bad loss, a bad activation, or bad gradients or the weights that they spoil.
  bool consequences_told() const {
    for (const Fault& fault : s_.faults) {
      const Reach reach = reach_in(s_, fault);
      if (watch_.loss && certain(reach.loss)) return true;
      for (std::size_t node = 0; node < reach.gradient.size(); ++node) {
        const Taint out = reach.activation[node];
        if (watch_.activations && !watch_.late && !watch_.hidden[node] && (out == Taint::kNan || out == Taint::kPlusInf))
          return true;
        if (certain(reach.gradient[node]) && !watch_.hidden_weight[node] && (watch_.gradients || watch_.state)) return true;
      }
    }
    return false;
  }

  // -Inf alone is known to be no mask only of a tensor that was seen without.
  bool no_mask() const {
    bool minus_inf = false;
    for (const Fault& fault : s_.faults) {
      const Taint taint = reach_in(s_, fault).activation[first_.node];
      minus_inf = minus_inf || taint == Taint::kMinusInf || taint == Taint::kMixed;
    }
    if (!minus_inf) return true;
    if (s_.graph.nodes[first_.node].op == Op::kMask || watch_.late || s_.healthy < kMaskSamples) return false;
    return !watch_.leader || ranks_.contains(0);
  }

  // Nothing of a told role shows it.
  std::optional<Expectation> nothing_told() {
    Expectation out;
    if (!skips_) return out;
    if (!s_.setup.scaler) return spoiled_state();
    out.where = "backward";
    if (!gradient(out)) return std::nullopt;
    missing(out);
    return out;
  }

  bool only_reduction_shows() const {
    return skips_ && std::all_of(s_.faults.begin(), s_.faults.end(), [&](const Fault& fault) {
             return fault.place == Place::kReduction || !reach_in(s_, fault).may_skip();
           });
  }

  // Without a scaler, and nobody looked at the gradients: what they spoiled in the step. Backward came from the end.
  std::optional<Expectation> spoiled_state() const {
    Expectation out;
    if (!watch_.state) return out;
    for (std::size_t node = s_.graph.nodes.size(); node-- > 0;) {
      if (watch_.hidden_weight[node]) continue;
      Taint worst = Taint::kClean;
      for (const Fault& fault : s_.faults) worst = std::max(worst, reach_in(s_, fault).gradient[node]);
      if (worst == Taint::kClean) continue;
      if (!certain(worst)) return std::nullopt;
      out.where = "weights";
      out.tensor = s_.graph.nodes[node].name + suffix(Role::kOptimizerState);
      out.role = Role::kOptimizerState;
      out.note = {"gradient records"};
      return out;
    }
    return out;
  }

  // After an all-reduce every rank holds the same; what each found before it tells more.
  bool gradient(Expectation& out) {
    out.ranks.clear();
    const bool before = watch_.local == Watch::FoundInf::kBefore && s_.setup.scaler && s_.setup.ranks > 1;
    if (!s_.setup.sharded) {
      for (Rank rank = 0; rank < s_.setup.ranks; ++rank) out.ranks.push_back(rank);
    }
    if (only_reduction_shows()) {
      if (before) out.where = "reduction";
      return true;
    }
    // That gradients are no shards is known from the table only.
    bool in_table = false;
    for (std::size_t node = 0; node < s_.graph.nodes.size(); ++node) {
      in_table = in_table || (s_.graph.weighted(node) && !watch_.hidden_weight[node]);
    }
    if (!before || !in_table) return true;
    std::set<Rank> own;
    for (const Fault& fault : s_.faults) {
      if (reach_in(s_, fault).skips()) own.insert(fault.ranks.begin(), fault.ranks.end());
    }
    if (own.size() == 1) out.rank_of_origin = *own.begin();
    return true;
  }

  // Where it began was not looked at: the note says what to send.
  void missing(Expectation& out) const {
    if (out.where == "input") return;  // which explains all that is seen
    for (const Fault& fault : s_.faults) {
      const Site own = own_site(s_, fault);
      if (found_ && own.when >= first_.when && fault.place != Place::kReduction) continue;
      // A weight's gradient flows nowhere: one of an activation is an origin of its own.
      if (fault.place == Place::kGradient && first_.role == Role::kActivationGradient) continue;
      // Nothing follows from these at this attempt.
      if (fault.place == Place::kBufferWrite || (fault.place == Place::kLoss && out.where != "backward")) continue;
      if (fault.place == Place::kReduction) {
        const bool blamed = out.where == "backward" && skips_;
        if (blamed) out.note.emplace_back(what_is_missing(fault.place));
      } else if (!role_told(watch_, own)) {
        out.note.emplace_back(what_is_missing(fault.place));
      }
    }
  }

  const Scenario& s_;
  const Watch& watch_;
  bool skips_ = false;
  bool found_ = false;
  Site first_;
  std::set<Rank> ranks_;
};

}  // namespace

std::optional<Expectation> expect(const Scenario& scenario) {
  return Answer(scenario).run();
}

}  // namespace scalewatch::domain::graphs
