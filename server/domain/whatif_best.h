// The settings of a policy that would have skipped least over recorded attempts, at bounded underflow. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/domain/policy.h"
#include "server/domain/whatif.h"
#include "server/domain/whatif_underflow.h"

namespace scalewatch::domain {

struct BestSettings {
  PolicyParameters parameters;
  WhatIf result;
  double underflow = 0;               // largest share of subnormal gradient elements that the records allow, 0 to 1
  std::vector<std::string> searched;  // parameters that were varied, by the policy's names for them
  std::size_t tried = 0;              // settings
  bool within = false;                // underflow <= the bound; else these are the settings nearest to it
};

// Varies the policy's initial scale (powers of four from 1 to 2^24), growth interval, backoff factor and hysteresis, each where
// it has one, around `ran`. Fewest skips win, then fewest attempts that can't be decided, then least underflow, then what is
// nearest to `ran`. `most_underflow` is a share, 0 to 1. `progress(done, all)` is called now and then. nullopt: the policy has
// nothing to vary, or every setting would have ended the run.
std::optional<BestSettings> best_settings(const std::string& policy, const PolicyParameters& ran,
                                          const std::vector<WhatIfAttempt>& attempts, const std::vector<Measured>& measured,
                                          double most_underflow,
                                          const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace scalewatch::domain
