#include "server/history/attempt_records.h"

#include <algorithm>

#include "server/history/api_error.h"
#include "server/history/record_reader.h"

namespace scalewatch::history {

namespace {

v1::Report parsed(const StoredReport& stored) {
  v1::Report report;
  if (!report.ParseFromString(stored.payload)) {
    throw ApiError{{engine::Status::kInternal, "the stored report of rank " + std::to_string(stored.rank) + " for attempt " +
                                                   std::to_string(stored.attempt) +
                                                   " cannot be read: the history file is damaged"}};
  }
  return report;
}

const std::vector<Catalog::Slot>* slots_of(const Catalog& catalog, std::int64_t stream) {
  const auto found = catalog.streams.find(stream);
  return found == catalog.streams.end() ? nullptr : found->second.slots.get();
}

// A regular report's record stands before that of a retrospective one.
bool holds(const v1::Report& report, std::uint32_t id) {
  return find_record(report, id, 0).has_value();
}

}  // namespace

void AttemptRecords::add(const RankReports& reports) {
  std::vector<v1::Report> before;
  for (const auto& stored : reports) {
    const auto* slots = slots_of(catalog_, stored.stream);
    if (slots == nullptr) continue;  // committed after the catalog was made
    v1::Report report = parsed(stored);
    const auto numel_of = [&](std::uint32_t id) { return id < slots->size() ? (*slots)[id].numel : 0; };
    for_each_record(report, numel_of, [&](std::uint32_t id, const Measured& measured) {
      if (id >= slots->size() || (*slots)[id].tensor == Catalog::kNone) return;
      if (std::any_of(before.begin(), before.end(), [&](const auto& earlier) { return holds(earlier, id); })) return;
      const auto& slot = (*slots)[id];
      if (merges_[slot.tensor].empty()) touched_.push_back(slot.tensor);
      merges_[slot.tensor].add(stored.rank, slot.shard, measured);
    });
    if (reports.size() > 1) before.push_back(std::move(report));
  }
}

std::vector<std::uint32_t> AttemptRecords::present() const {
  auto tensors = touched_;
  std::sort(tensors.begin(), tensors.end());
  return tensors;
}

void AttemptRecords::clear() {
  for (const auto tensor : touched_) merges_[tensor].clear();
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
    const v1::Report report = parsed(stored);
    for (const std::uint32_t id : ids(*slots)) {
      if (std::find(done.begin(), done.end(), id) != done.end()) continue;
      const auto measured = find_record(report, id, (*slots)[id].numel);
      if (!measured) continue;
      merge_.add(stored.rank, (*slots)[id].shard, *measured);
      done.push_back(id);
    }
  }
}

}  // namespace scalewatch::history
