// "Did you mean": the names nearest to one that is not known. Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::history {

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

// Levenshtein's distance, of what is left of both names (at most 64 bytes each) without their common beginning and end.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace scalewatch::history
