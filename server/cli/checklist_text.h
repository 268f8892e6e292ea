// A judged checklist as people and programs read it, whatever it was judged from.
//
// JSON: {"holds", "violated", "not_observable", "items": [{"id", "title", "verdict": "holds|violated|not observable",
// "evidence", "send"}]}; send is null but for what can't be observed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "server/cli/screen.h"
#include "server/domain/checklist.h"

namespace scalewatch::cli {

void print_checklist(const std::vector<domain::ChecklistItem>& items, const Screen& screen);
nlohmann::ordered_json checklist_json(const std::vector<domain::ChecklistItem>& items);
bool any_violated(const std::vector<domain::ChecklistItem>& items);

}  // namespace scalewatch::cli
