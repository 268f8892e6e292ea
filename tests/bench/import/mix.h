// A log of all formats mixed, made in memory: a third of the lines matter, the rest is what trainers, launchers and libraries
// print beside them. Colours, carriage returns and prefixes included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace scalewatch::logimport {

struct Mix {
  std::string text;
  std::uint64_t lines = 0;
  std::uint64_t matching = 0;
};

// About so many bytes; the same for the same seed.
Mix make_mix(std::size_t bytes, std::uint64_t seed);

}  // namespace scalewatch::logimport
