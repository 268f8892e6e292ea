#include "server/cli/text/nearest.h"

#include <algorithm>

namespace scalewatch::cli::text {

namespace {

constexpr std::size_t kMaxLength = 64;  // what is longer is no word

// Slips between two words: the optimal string alignment distance.
std::size_t slips(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view typed, const std::vector<std::string>& words) {
  if (typed.empty() || typed.size() > kMaxLength) return {};
  std::string best;
  std::size_t least = kMaxLength;
  for (const auto& word : words) {
    if (typed.size() >= 2 && word.starts_with(typed)) return word;
    if (word.size() > kMaxLength) continue;
    const auto distance = slips(typed, word);
    if (distance > std::max<std::size_t>(1, word.size() / 3) || distance >= least) continue;
    least = distance;
    best = word;
  }
  return best;
}

}  // namespace scalewatch::cli::text
