// Copies what can be read of a damaged history file into a new one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "server/history/maintenance.h"

namespace scalewatch::history {

// Whether SQLite itself finds the file unsound: pages that cannot be read, trees that are broken. Indexes alone do not count,
// for they are made anew where they are.
bool needs_salvage(const std::filesystem::path& database);

// Puts a new history.db in the place of a damaged one, with every row that can still be reached; indexes are made anew. The
// damaged file and its write-ahead log stay beside it as history.db.damaged-<Unix seconds>. What is lost is added to `faults`.
// With the folder's lock held. Throws StoreError when no copy can be made; then all is as it was.
void salvage(const std::filesystem::path& database, std::vector<Fault>& faults);

}  // namespace scalewatch::history
