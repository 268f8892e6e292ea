// The known word that a mistyped one was probably meant to be. Pure.
#pragma once

#include <string>
#include <vector>

namespace scalewatch::app {

// By edit distance; the first of the nearest. Empty when there are no words.
std::string nearest(const std::string& word, const std::vector<std::string>& words);

}  // namespace scalewatch::app
