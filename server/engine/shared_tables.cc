#include "server/engine/shared_tables.h"

#include <algorithm>
#include <utility>

#include "server/engine/hello.h"

namespace scalewatch::engine {

SharedTables::Table SharedTables::share(Table table) {
  if (table->empty()) return table;
  const std::uint64_t hash = table_hash(*table);
  std::lock_guard lock(mutex_);
  const auto [first, last] = tables_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (Table held = at->second.lock(); held && *held == *table) return held;
  }
  if (tables_.size() >= sweep_at_) {
    std::erase_if(tables_, [](const auto& each) { return each.second.expired(); });
    sweep_at_ = std::max<std::size_t>(64, 2 * tables_.size());
  }
  tables_.emplace(hash, table);
  return table;
}

}  // namespace scalewatch::engine
