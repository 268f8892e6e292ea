#include "server/history/nearest.h"

#include <algorithm>
#include <array>

namespace scalewatch::history {

namespace {
constexpr std::size_t kMaxNames = 3;
constexpr std::size_t kMaxCompared = 64;
}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto begin = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  a.remove_prefix(begin);
  b.remove_prefix(begin);
  const auto end = static_cast<std::size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
  a.remove_suffix(end);
  b.remove_suffix(end);
  // What is beyond the limit counts by its length alone.
  const std::size_t beyond = std::max(a.size(), b.size()) - std::min(std::max(a.size(), b.size()), kMaxCompared);
  a = a.substr(0, kMaxCompared);
  b = b.substr(0, kMaxCompared);
  std::array<std::size_t, kMaxCompared + 1> row{};
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()] + beyond;
}

void NearestNames::offer(std::string_view name) {
  const Candidate candidate{edit_distance(wanted_, name), std::string(name)};
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

}  // namespace scalewatch::history
