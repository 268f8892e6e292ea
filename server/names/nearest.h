// "Did you mean": the names nearest to one that is not known. Pure and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::names {

// Slips between two names (a letter more, less, another, or two neighbours exchanged: the optimal string alignment distance),
// of what is left of both without their common beginning and end. At most 64 bytes of that are compared; what is beyond
// counts by its length alone.
std::size_t slips(std::string_view a, std::string_view b);

// The word that is fewest slips away from `typed`; empty when even that one is farther than a third of its letters. A word
// that begins with what was typed is taken before.
std::string nearest(std::string_view typed, const std::vector<std::string>& words);

// The three nearest of names that are offered one by one.
class NearestNames {
 public:
  explicit NearestNames(std::string_view wanted) : wanted_(wanted) {}
  // Offers a name; repeats are taken once. Costs at most a few thousand steps.
  void offer(std::string_view name);
  // "; nearest: "a", "b", "c"", or nothing without names.
  [[nodiscard]] std::string text() const;

 private:
  struct Candidate {
    std::size_t distance = 0;
    std::string name;
    bool operator<(const Candidate& other) const {
      return distance != other.distance ? distance < other.distance : name < other.name;
    }
    bool operator==(const Candidate&) const = default;
  };
  std::string wanted_;
  std::vector<Candidate> nearest_;  // at most 3, nearest first
};

}  // namespace scalewatch::names
