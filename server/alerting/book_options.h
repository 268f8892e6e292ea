// How alerts live, for all sinks. Plain values that app fills from the configuration.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/domain/finding.h"

namespace scalewatch::alerting {

// For alerts of some runs and rules. All that match apply, a later one over an earlier one.
struct AlertOverride {
  std::string runs = "*";                           // shell pattern of run names: * ? [...]
  std::string rules = "*";                          // shell pattern of rule names
  std::optional<bool> page;                         // false: shown, and nobody is told
  std::optional<domain::Severity> min_severity;     // nobody is told below it
  std::optional<std::chrono::milliseconds> hold;    // pending for so long before people are told
  std::optional<std::chrono::milliseconds> repeat;  // in place of BookOptions::repeat
};

struct BookOptions {
  // Alerts of a run that come within this of the first are one page. Under a second: an alert leaves within one.
  std::chrono::milliseconds group_wait{200};
  std::chrono::milliseconds repeat{std::chrono::hours(4)};  // an alert that nobody acknowledged is paged again; 0 = never
  // An alert that came back so many times within the window pages only once it has been open for flap_hold; 0 = no damping.
  std::uint32_t flap_times = 5;
  std::chrono::milliseconds flap_window{std::chrono::hours(1)};
  std::chrono::milliseconds flap_hold{std::chrono::minutes(5)};
  std::vector<AlertOverride> overrides;
  std::string allowed_hosts;  // of sinks, for all of them: see Destinations::parse
  std::string runbook_url;    // of runbook pages: {rule} in it becomes the rule's name; empty: alerts carry none
};

// BookOptions::runbook_url of one rule.
std::string runbook_of(const BookOptions& options, const std::string& rule);

}  // namespace scalewatch::alerting
