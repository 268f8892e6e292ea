// The project's words for what the wire has numbers for, and the way back for options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/text/layout.h"
#include "server/domain/finding.h"

namespace scalewatch::cli {

// "critical", "warning", "info", or "none".
std::string_view severity_word(domain::Severity severity);
text::Style severity_style(domain::Severity severity);
inline domain::Severity severity_of(v1::Severity severity) {
  return static_cast<domain::Severity>(severity);
}

// "gradient", "activation_gradient", ...; "-" when unspecified.
std::string_view role_word(Role role);
std::string_view dtype_word(DType dtype);
// Narrow forms for tables: "grad", "act_grad", "state".
std::string_view role_short(v1::Role role);
inline std::string_view dtype_word(v1::DType dtype) {
  return dtype_word(static_cast<DType>(dtype));
}

// "running", "finished", "lost".
std::string_view status_word(v1::RunStatus status);
text::Style status_style(v1::RunStatus status);

// What options accept, and what it means; the empty word means unspecified.
const std::vector<std::string>& severity_choices();
v1::Severity parse_severity(std::string_view word);
// In the order of the wire's numbers, from 1: "pending", "firing", ...
const std::vector<std::string>& state_choices();
const std::vector<std::string>& status_choices();
v1::RunStatus parse_status(std::string_view word);
const std::vector<std::string>& role_choices();
// The role that somebody means who writes it shorter: as tables do ("act_grad"), with dashes, or only its beginning; else the
// word as it is.
std::string role_meant(const std::string& word);
v1::Role parse_role(std::string_view word);
const std::vector<std::string>& by_choices();
v1::TopTensorsRequest::By parse_by(std::string_view word);

}  // namespace scalewatch::cli
