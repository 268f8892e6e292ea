// What the checklist needs to know, from a server.
#pragma once

#include <string>

#include "scalewatch/v1/history.pb.h"
#include "server/cli/client.h"
#include "server/domain/checklist.h"

namespace scalewatch::cli {

// Of the run's newest segment; reads its tensors (at most 20,000) and its newest attempt.
domain::ChecklistFacts checklist_facts(Client& client, const v1::GetRunResponse& run);

// Of a log's file: what it prints, and what is found in it. Throws CallError for a file that can't be read or tells of no run.
domain::ChecklistFacts checklist_facts(const std::string& file);

}  // namespace scalewatch::cli
