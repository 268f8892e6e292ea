#include "server/history/attempt_records.h"

#include <algorithm>
#include <unordered_set>

namespace scalewatch::history {

namespace {

const std::vector<Catalog::Slot>* slots_of(const Catalog& catalog, std::int64_t stream) {
  const auto found = catalog.streams.find(stream);
  return found == catalog.streams.end() ? nullptr : found->second.slots.get();
}

}  // namespace

void AttemptRecords::add(const RankReports& reports) {
  if (merges_.empty()) merges_.resize(std::min(end_, catalog_.tensors.size()) - begin_);
  // A regular report's record stands before that of a retrospective one.
  std::unordered_set<std::uint32_t> before;
  std::unordered_set<std::uint32_t> now;
  for (const auto& stored : reports) {
    const auto* slots = slots_of(catalog_, stored.stream);
    if (slots == nullptr) continue;  // committed after the catalog was made
    const auto numel_of = [&](std::uint32_t id) { return id < slots->size() ? (*slots)[id].numel : 0; };
    const auto wanted = [&](std::uint32_t id) {
      const auto tensor = (*slots)[id].tensor;
      return tensor != Catalog::kNone && tensor >= begin_ && tensor < end_;
    };
    TensorIds ids{UINT32_MAX, 0};
    for (std::uint32_t id = 0; id < slots->size(); ++id) {
      if (wanted(id)) ids = {std::min(ids.first, id), id};
    }
    if (ids.first > ids.last) continue;
    stored_.for_each(stored, ids, numel_of, [&](std::uint32_t id, const Measured& measured) {
      if (id >= slots->size() || !wanted(id) || before.contains(id)) return;
      const auto& slot = (*slots)[id];
      RankMerge& merge = merges_[slot.tensor - begin_];
      if (merge.empty()) touched_.push_back(slot.tensor);
      merge.add(stored.rank, slot.shard, measured);
      if (reports.size() > 1) now.insert(id);
    });
    before.merge(now);
    now.clear();
  }
}

std::vector<std::uint32_t> AttemptRecords::present() const {
  auto tensors = touched_;
  std::sort(tensors.begin(), tensors.end());
  return tensors;
}

void AttemptRecords::clear() {
  for (const auto tensor : touched_) merges_[tensor - begin_].clear();
  touched_.clear();
}

const std::vector<std::uint32_t>& TensorRecords::ids(const std::vector<Catalog::Slot>& slots) {
  const auto [found, is_new] = ids_.try_emplace(&slots);
  if (is_new) {
    for (std::uint32_t id = 0; id < slots.size(); ++id) {
      if (slots[id].tensor == tensor_) found->second.push_back(id);
    }
  }
  return found->second;
}

void TensorRecords::add(const RankReports& reports) {
  std::vector<std::uint32_t> done;
  for (const auto& stored : reports) {
    const auto* slots = slots_of(catalog_, stored.stream);
    if (slots == nullptr || ids(*slots).empty()) continue;
    for (const std::uint32_t id : ids(*slots)) {
      if (std::find(done.begin(), done.end(), id) != done.end()) continue;
      const auto measured = stored_.find(stored, id, (*slots)[id].numel);
      if (!measured) continue;
      merge_.add(stored.rank, (*slots)[id].shard, *measured);
      done.push_back(id);
    }
  }
}

}  // namespace scalewatch::history
