// One run of a random graph with a fault in it, what is collected of it, and what must be said of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/domain/graphs/reach.h"
#include "tests/unit/domain/graphs/trainer.h"

namespace scalewatch::domain::graphs {

// What the ranks collect and tell.
struct Watch {
  enum class FoundInf : std::uint8_t { kAbsent, kBefore, kAfter };  // the local one: taken before or after the reduction

  bool input = true;
  bool loss = true;
  bool activations = true;
  bool activation_gradients = true;
  bool gradients = true;
  bool state = true;  // parameters, buffers and optimizer state
  FoundInf local = FoundInf::kAfter;
  std::vector<bool> hidden;         // by node: its activation and the gradient of that are not measured
  std::vector<bool> hidden_weight;  // by node: its weight, gradient and optimizer state are not measured
  bool leader = false;              // rank 0 tells all, the others only what is non-finite of what flows
  bool late = false;                // activations and their gradients come later, as retrospective detail
  bool told_twice = false;          // activations are told again, as their recomputation for backward finds them
};

struct Scenario {
  std::uint64_t seed = 0;
  Graph graph;
  Setup setup;
  Watch watch;
  std::size_t healthy = 3;  // attempts before the fault
  std::vector<Fault> faults;

  [[nodiscard]] std::string text() const;
};
// Draws one. The same seed gives the same.
Scenario draw(std::uint64_t seed);

// reach_of, with the reduction as the setup has it.
Reach reach_in(const Scenario& scenario, const Fault& fault);

// What must be said of the attempt that the faults are planted in.
struct Expectation {
  std::string where;   // empty: no fault can be seen
  std::string tensor;  // empty: none can be named
  Role role = Role::kUnspecified;
  std::string kind;  // empty: not known
  std::optional<Rank> rank_of_origin;
  std::vector<Rank> ranks;  // empty: not known
  std::optional<std::uint32_t> micro;
  std::vector<std::string> note;  // what it must say has to be collected
};
// Nothing when the rules of arithmetic do not say for certain what becomes of the faults, or a person could not tell either.
std::optional<Expectation> expect(const Scenario& scenario);

// And of the next attempt, which nothing is planted in.
std::optional<Expectation> expect_after(const Scenario& scenario);

}  // namespace scalewatch::domain::graphs
