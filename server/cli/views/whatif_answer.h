// What `scalewatch whatif` found, and how it is told.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/cli/screen.h"
#include "server/cli/views/whatif_read.h"
#include "server/domain/policy.h"
#include "server/domain/whatif.h"
#include "server/domain/whatif_best.h"
#include "server/domain/whatif_underflow.h"

namespace scalewatch::cli {

// One policy over the attempts.
struct Story {
  std::string policy;
  domain::PolicyParameters parameters;
  domain::WhatIf result;
};

struct WhatIfAnswer {
  Recorded recorded;  // attempts are not empty
  Story ran;
  Story instead;
  std::vector<domain::Underflow> went;         // by tensor, under the scales that were in force
  std::vector<domain::Underflow> went_under;   // by tensor, under those of `instead`
  std::optional<domain::BestSettings> search;  // with --best
  double most_underflow = 0;                   // its bound, a share
  std::uint32_t shown = 10;                    // tensors in the table
};

void print_whatif(const WhatIfAnswer& answer, const Screen& screen);
void print_whatif_json(const WhatIfAnswer& answer, const Screen& screen);

// Of `elements`: "3.1%" where it is known, else "<=3.1%" or "0.2-3.1%".
std::string share_text(const domain::Bounds& count, double elements, bool ascii);
// {low, high} as shares; null without elements.
nlohmann::ordered_json share_json(const domain::Bounds& count, double elements);

}  // namespace scalewatch::cli
