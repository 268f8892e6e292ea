// What differs between two configurations, in words: for whoever reloads.
#pragma once

#include <string>
#include <vector>

#include "server/app/config.h"

namespace scalewatch::app {

struct ConfigDiff {
  std::vector<std::string> live;          // may change while the server runs: "rules.collapse_octaves: 6 -> 8"
  std::vector<std::string> need_restart;  // the rest, likewise
  bool rules = false;                     // among the live ones: rules.*, rules_by_run
  bool alerting = false;                  // and alerting.*
};

// Of what may be a secret (addresses, headers, bodies) only the names are told. Pure.
ConfigDiff differences(const Config& running, const Config& wanted);

// `running` with what may change live taken from `wanted`.
Config with_live_part(const Config& running, const Config& wanted);

}  // namespace scalewatch::app
