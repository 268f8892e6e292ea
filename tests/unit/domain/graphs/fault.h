// A fault: one value, somewhere in a training step, that is not what it should be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/domain/observation.h"

namespace scalewatch::domain::graphs {

enum class Place : std::uint8_t {
  kInput,               // an element of the batch
  kWeight,              // an element of a weight, before the attempt
  kWeightWrite,         // an element of a weight as the optimizer writes it
  kOptimizerState,      // an element of its state as it writes it, after it was used
  kBufferWrite,         // an element of a running mean as the forward pass writes it
  kActivation,          // an element of what a node puts out
  kLoss,                // the loss as a number; backward does not read it
  kLabel,               // a label: the loss and what backward begins with
  kActivationGradient,  // an element of a node's gradient
  kGradient,            // an element of a weight's gradient on its rank, before the reduction
  kReduction,           // elements of a weight's gradient, finite on every rank, that overflow as they are added up
};
constexpr std::size_t kPlaces = 11;

struct Fault {
  Place place = Place::kInput;
  std::size_t node = 0;     // where the place has one
  std::vector<Rank> ranks;  // rising; all of them for kReduction
  double value = 0;         // NaN, Inf or -Inf
  // The operation itself makes the value, from finite operands: 60000 + 60000, 300 * 300, 0 / 0, log(-1), a long dot product.
  bool computed = false;
  std::size_t element = 0;
  std::uint32_t micro = 0;  // micro-batch

  [[nodiscard]] bool on(Rank rank) const;
  [[nodiscard]] std::string text() const;
};

}  // namespace scalewatch::domain::graphs
