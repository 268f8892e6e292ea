// Loss-scaler policies: what a scaler does to its scale, as pure state machines, and what a rule has to know of one.
//
// A new policy is one file in policies/ and one line in policies/registry.cc. Not thread-safe; deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::domain {

using PolicyParameters = std::map<std::string, double>;

class Policy {
 public:
  virtual ~Policy() = default;
  // One attempt ended. `found_inf`: some gradient was non-finite. Returns the scale for the next attempt.
  virtual double update(bool found_inf) = 0;
  [[nodiscard]] virtual double scale() const = 0;

  [[nodiscard]] virtual double init_scale() const = 0;
  // Does the scale follow overflows? If not, a skip can't be read from the scale.
  [[nodiscard]] virtual bool dynamic() const = 0;
  // Does a scaler stand between a non-finite gradient and the weights?
  [[nodiscard]] virtual bool guards() const { return true; }
  // Overflows that one backoff takes; 1 for scalers without hysteresis.
  [[nodiscard]] virtual std::int32_t hysteresis() const { return 1; }
  [[nodiscard]] virtual std::optional<double> floor() const { return std::nullopt; }
  [[nodiscard]] virtual std::optional<double> ceiling() const { return std::nullopt; }
  // Non-empty when the scaler would end the run at its next overflow: why.
  [[nodiscard]] virtual std::string fatal() const { return {}; }
};

// Parameters that are absent take the policy's own defaults; non-finite or non-positive ones count as absent.
// nullptr: no policy of that name.
std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyParameters& parameters);
std::vector<std::string_view> policy_names();

// The value of a parameter if it was given and makes sense, else the default.
double parameter_or(const PolicyParameters& parameters, const std::string& name, double fallback);

}  // namespace scalewatch::domain
