#include "tests/unit/domain/graphs/fault.h"

#include <algorithm>
#include <array>

namespace scalewatch::domain::graphs {

bool Fault::on(Rank rank) const {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

std::string Fault::text() const {
  static constexpr std::array<const char*, kPlaces> kNames{
      "input", "weight", "weight write",        "optimizer state", "buffer write", "activation",
      "loss",  "label",  "activation gradient", "gradient",        "reduction"};
  std::string text = kNames[static_cast<std::size_t>(place)] + std::string(" of node ") + std::to_string(node) +
                     " := " + std::to_string(value) + (computed ? " (computed)" : "") + ", element " + std::to_string(element) +
                     ", micro " + std::to_string(micro) + ", ranks";
  for (const Rank rank : ranks) text += " " + std::to_string(rank);
  return text;
}

}  // namespace scalewatch::domain::graphs
