// Words and numbers as findings print them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/domain/finding.h"
#include "server/domain/observation.h"

namespace scalewatch::domain {

std::string number_text(double value);            // short: "0.0001", "65536", "1.5e+09"
std::string scale_text(double scale);             // powers of two as "2^16"
std::string ranks_text(std::vector<Rank> ranks);  // "rank 3", "ranks 0-2, 7"
std::string role_text(Role role);                 // "activation gradient"
std::string kind_text(const std::string& kind);   // "NaN", "Inf", "NaN and Inf", "a non-finite value"
// "the gradient of layers.3.weight", "the loss", "the all-reduce of gradients", ...
std::string origin_text(const Blame& blame);
std::string_view loss_cause_name(LossCause cause);    // "buffer_full"; as logged and shown
LossCause loss_cause_of(std::string_view name);       // kInternal when the name is unknown
std::string scaler_text(const std::string& subject);  // "scaler default", "the scaler"

}  // namespace scalewatch::domain
