// "Did you mean": the word of a list that somebody probably meant. Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::cli::text {

// The word that is fewest slips away from `typed` (a letter more, less, another, or two exchanged); empty when even that one
// is farther than a third of its letters. A word that begins with what was typed is taken before.
std::string nearest(std::string_view typed, const std::vector<std::string>& words);

}  // namespace scalewatch::cli::text
