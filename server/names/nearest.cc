#include "server/names/nearest.h"

#include <algorithm>
#include <array>

namespace scalewatch::names {

namespace {
constexpr std::size_t kMaxNames = 3;
constexpr std::size_t kMaxCompared = 64;
}  // namespace

std::size_t slips(std::string_view a, std::string_view b) {
  const auto begin = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  a.remove_prefix(begin);
  b.remove_prefix(begin);
  const auto end = static_cast<std::size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
  a.remove_suffix(end);
  b.remove_suffix(end);
  const std::size_t longest = std::max(a.size(), b.size());
  const std::size_t beyond = longest - std::min(longest, kMaxCompared);
  a = a.substr(0, kMaxCompared);
  b = b.substr(0, kMaxCompared);
  using Row = std::array<std::size_t, kMaxCompared + 1>;
  Row before{};  // two letters of `a` ago
  Row last{};
  Row row{};
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = last;
    last = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()] + beyond;
}

std::string nearest(std::string_view typed, const std::vector<std::string>& words) {
  if (typed.empty() || typed.size() > kMaxCompared) return {};  // what is longer is no word
  std::string best;
  std::size_t least = kMaxCompared;
  for (const auto& word : words) {
    if (typed.size() >= 2 && word.starts_with(typed)) return word;
    const auto distance = slips(typed, word);
    if (distance > std::max<std::size_t>(1, word.size() / 3) || distance >= least) continue;
    least = distance;
    best = word;
  }
  return best;
}

void NearestNames::offer(std::string_view name) {
  const Candidate candidate{slips(wanted_, name), std::string(name)};
  if (std::find(nearest_.begin(), nearest_.end(), candidate) != nearest_.end()) return;
  nearest_.insert(std::upper_bound(nearest_.begin(), nearest_.end(), candidate), candidate);
  if (nearest_.size() > kMaxNames) nearest_.pop_back();
}

std::string NearestNames::text() const {
  std::string text;
  for (const auto& candidate : nearest_) {
    text += text.empty() ? "; nearest: \"" : ", \"";
    text += candidate.name + "\"";
  }
  return text;
}

}  // namespace scalewatch::names
