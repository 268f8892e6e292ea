// How a policy takes its parameters: by the names that its framework uses, with defaults, remembering what it was asked for.
#pragma once

#include <initializer_list>
#include <set>
#include <string>

#include "server/domain/policy.h"

namespace scalewatch::domain {

// Each call names one parameter and its aliases; the first that was given counts. A value that makes no sense counts as absent.
class ParameterReader {
 public:
  using Names = std::initializer_list<const char*>;
  explicit ParameterReader(const PolicyParameters& given) : given_(given) {}

  // Finite and > 0.
  double positive(Names names, double fallback);
  // Finite and > 1, and > 0 and < 1: factors that grow and that fall.
  double above_one(Names names, double fallback);
  double below_one(Names names, double fallback);
  // Finite and >= 0.
  double zero_or_more(Names names, double fallback);
  // Finite and >= 0; 0 says that there is none.
  std::optional<double> bound(Names names, std::optional<double> fallback);
  // A whole number of at least `least`; taken as 2^62 beyond that.
  std::int64_t count(Names names, std::int64_t fallback, std::int64_t least = 1);
  // A whole number from 1 to 2^30.
  std::int32_t hysteresis(Names names, std::int32_t fallback);
  // 0 is no; any other finite value is yes.
  bool flag(Names names, bool fallback);

  [[nodiscard]] ParameterCheck check() const;

 private:
  template <class Accept>
  std::optional<double> take(Names names, const Accept& accept);

  const PolicyParameters& given_;
  std::vector<std::string> known_;
  std::set<std::string> refused_;
};

// One product in fp32, as a scaler whose scale is an fp32 tensor makes it.
inline double times_fp32(double scale, double factor) {
  return static_cast<double>(static_cast<float>(scale) * static_cast<float>(factor));
}

}  // namespace scalewatch::domain
