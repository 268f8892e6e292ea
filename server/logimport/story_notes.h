// What a log names: tensors that went non-finite, magnitudes of a dump of frames, misuse, ranks that differ. Waits here for the
// attempt that it belongs to. Bounded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/domain/observation.h"
#include "server/domain/thresholds.h"
#include "server/logimport/reading.h"

namespace scalewatch::logimport {

class Notes {
 public:
  explicit Notes(const domain::Thresholds& thresholds) : thresholds_(thresholds) {}
  void add(const Reading& reading);
  void add(domain::RankDifference difference, std::uint64_t line);
  [[nodiscard]] bool empty() const {
    return named_.empty() && misuse_.empty() && differences_.empty() && !input_ && !loss_ && !dominates();
  }
  [[nodiscard]] std::uint64_t line() const { return line_; }
  // Hands all of it to the attempt.
  void give(domain::AttemptDigest& digest);

 private:
  static constexpr std::size_t kMaxNamed = 256;
  struct Named {
    std::string name;
    Role role = Role::kUnspecified;
    bool nan = false;
    bool inf = false;
    std::optional<double> largest;
  };

  // The same tensor held most of the gradient norm, so many times in a row.
  struct Dominant {
    std::string name;
    double share = 0;
    std::uint32_t times = 0;
  };
  [[nodiscard]] bool dominates() const { return dominant_.times >= thresholds_.dominant_gradient_samples; }

  domain::Thresholds thresholds_;
  Dominant dominant_;
  std::vector<Named> named_;
  std::vector<domain::MisuseObservation> misuse_;
  std::vector<domain::RankDifference> differences_;
  bool input_ = false;
  std::optional<double> loss_;
  std::uint64_t line_ = 0;  // of the first
};

}  // namespace scalewatch::logimport
