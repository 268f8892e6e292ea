// Loss-scaler policies: what a scaler does to its scale, as pure state machines, and what a rule has to know of one.
//
// A policy is its parameters plus a PolicyState, a plain value. Whoever must remember a policy keeps the scaler's name and
// parameters and that value: make_policy(name, parameters)->restore(state) goes on where it was.
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

// What changes as a policy goes on. A policy uses the fields that it has a use for and leaves the others alone.
struct PolicyState {
  double scale = 1;
  std::int64_t clean = 0;       // growth tracker: attempts without found_inf that count towards growth
  std::int32_t hysteresis = 1;  // what is left of it: at 1 or less, the next overflow lowers the scale
  std::int64_t overflows = 0;   // fairseq: since the scale fell; MindSpore, optax: in a row
  std::int64_t attempts = 0;    // fairseq: since the scale changed
  bool ended = false;           // the scaler raised: its run is over

  bool operator==(const PolicyState&) const = default;
  template <class A>
  void persist(A& a) {
    a(scale, clean, hysteresis, overflows, attempts, ended);
  }
};

// What was seen of a scaler after an attempt; absent: not seen.
struct PolicyObservation {
  std::optional<double> scale;
  std::optional<std::int64_t> growth_tracker;
  std::optional<std::int32_t> hysteresis;
};

class Policy {
 public:
  virtual ~Policy() = default;

  // ---- the machine
  // One attempt ended. `found_inf`: some gradient was non-finite. Returns the scale for the next attempt. When fatal() was not
  // empty and found_inf is true the scaler raises: ended(), and nothing changes from then on.
  double update(bool found_inf);
  // The state that update(found_inf) would lead to.
  [[nodiscard]] PolicyState peek(bool found_inf) const;
  [[nodiscard]] const PolicyState& state() const { return state_; }
  [[nodiscard]] double scale() const { return state_.scale; }
  [[nodiscard]] bool ended() const { return state_.ended; }
  // Does an attempt with found_inf, now, leave the weights alone? guards() but for scalers that lose patience.
  [[nodiscard]] virtual bool skips() const { return guards(); }
  // Goes on from a state that this policy, with the same parameters, had.
  void restore(const PolicyState& state) { state_ = state; }
  // Goes on from what was seen; what was not seen stays as it is. The run evidently goes on: not ended.
  void resync(const PolicyObservation& seen);
  // What the scaler itself would report after the newest update; nullopt: it keeps none. A hysteresis may be below zero.
  [[nodiscard]] std::optional<std::int64_t> growth_tracker() const;
  [[nodiscard]] std::optional<std::int32_t> hysteresis_tracker() const;

  // ---- what it stands for
  [[nodiscard]] double init_scale() const { return init_; }  // make_policy(name, {}) has the policy's default
  // Does the scale follow overflows? If not, a skip can't be read from the scale.
  [[nodiscard]] virtual bool dynamic() const { return true; }
  // Does a scaler stand between a non-finite gradient and the weights?
  [[nodiscard]] virtual bool guards() const { return true; }
  // Overflows that one backoff takes when hysteresis is full; 1 for scalers without hysteresis.
  [[nodiscard]] virtual std::int32_t hysteresis() const { return 1; }
  // Overflows from now until the scale falls, were all the next attempts to overflow; >= 1.
  [[nodiscard]] std::int32_t skips_to_backoff() const;
  // What growth and backoff multiply the scale by (2 and 0.5 in most), and the clean attempts that a growth takes.
  [[nodiscard]] virtual double growth_factor() const { return 2; }
  [[nodiscard]] virtual double backoff_factor() const { return 0.5; }
  [[nodiscard]] virtual std::optional<std::int64_t> growth_interval() const { return std::nullopt; }
  // The scale never falls below floor() nor, by growing, rises above ceiling(). Absent: nothing stops it.
  [[nodiscard]] virtual std::optional<double> floor() const { return std::nullopt; }
  [[nodiscard]] virtual std::optional<double> ceiling() const { return std::nullopt; }
  // No number of overflows can lower the scale from here: it is at the floor, or the scaler would rather raise.
  [[nodiscard]] virtual bool at_floor() const;
  // Non-empty when the scaler would end the run at its next overflow: why, in the scaler's own words where it has some.
  [[nodiscard]] std::string fatal() const;

 protected:
  explicit Policy(double init) : init_(init) { state_.scale = init; }
  Policy(const Policy&) = default;
  Policy& operator=(const Policy&) = default;

  // What the state becomes; it has not ended.
  virtual void next(PolicyState& state, bool found_inf) const = 0;
  // Does it keep a hysteresis in PolicyState::hysteresis?
  [[nodiscard]] virtual bool has_hysteresis() const { return false; }
  // Why it raises, where it may.
  [[nodiscard]] virtual std::string fatal_words() const { return {}; }

  PolicyState state_;

 private:
  double init_;
};

// Parameters that are absent take the policy's own defaults; non-finite ones, and those that make no sense, count as absent.
// nullptr: no policy of that name. Names are in policies/registry.cc; the parameters of each, in its file.
std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyParameters& parameters);
std::vector<std::string_view> policy_names();

// For people who type them: what is wrong with a policy's parameters.
struct ParameterCheck {
  std::vector<std::string> known;    // every name that the policy listens to
  std::vector<std::string> unknown;  // given, and not listened to
  std::vector<std::string> refused;  // given, and makes no sense (not finite, zero or less, ...)
};
// nullopt: no policy of that name.
std::optional<ParameterCheck> check_parameters(std::string_view name, const PolicyParameters& parameters);

// The value of a parameter if it was given and is finite and above 0, else the default.
double parameter_or(const PolicyParameters& parameters, const std::string& name, double fallback);

}  // namespace scalewatch::domain
