#include "server/history/record_reader.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "cuda/record/format.h"

namespace scalewatch::history {

namespace {

template <class Column, class Value>
Value at(const Column& column, int index, Value missing) {
  return index < column.size() ? static_cast<Value>(column.Get(index)) : missing;
}

int size_of(const v1::RecordBlock& block) {
  return static_cast<int>(records_of(block));
}

}  // namespace

std::uint32_t records_of(const v1::RecordBlock& block) {
  if (!block.ids().empty()) return static_cast<std::uint32_t>(block.ids_size());
  // No more than there are values, whatever the count says.
  return std::min(block.count(), static_cast<std::uint32_t>(block.sum_size()));
}

void dense_record(const v1::RecordBlock& block, int index, std::uint64_t table_numel, Measured& measured) {
  constexpr float kAbsent = std::numeric_limits<float>::quiet_NaN();
  measured.scale = effective_scale(block.measured_under_scale());
  measured.target = static_cast<DType>(block.target());
  measured.micro_batches = std::max(1U, block.micro_batches());
  auto& record = measured.record;
  record.numel = at(block.numel(), index, table_numel * measured.micro_batches);
  record.min = at(block.min(), index, kAbsent);
  record.max = at(block.max(), index, kAbsent);
  record.absmin_nonzero = at(block.absmin_nonzero(), index, kAbsent);
  record.sum = at(block.sum(), index, 0.0);
  record.sum_sq = at(block.sum_sq(), index, 0.0);
  record.zero = at(block.zero(), index, std::uint64_t{0});
  record.subnormal = at(block.subnormal(), index, std::uint64_t{0});
  record.flushed = at(block.flushed(), index, std::uint64_t{0});
}

namespace {

// Fills the sparse columns into the records that `find` gives for their indexes (null: not wanted).
template <class Find>
void sparse_part(const v1::RecordBlock& block, const Find& find) {
  const auto spread = [&](const auto& list, std::uint64_t Record::*field) {
    for (const auto& entry : list) {
      if (Measured* measured = find(entry.index())) measured->record.*field = entry.count();
    }
  };
  spread(block.nan(), &Record::nan);
  spread(block.pos_inf(), &Record::pos_inf);
  spread(block.neg_inf(), &Record::neg_inf);
  spread(block.over(), &Record::over);
  for (const auto& entry : block.first_bad_micro()) {
    if (Measured* measured = find(entry.index())) measured->first_bad_micro = entry.micro();
  }
}

// Position of a tensor in a block; -1 when it is not there.
int position(const v1::RecordBlock& block, std::uint32_t id) {
  if (block.ids().empty()) {
    const std::uint64_t index = std::uint64_t{id} - block.first_id();
    return id >= block.first_id() && index < static_cast<std::uint64_t>(size_of(block)) ? static_cast<int>(index) : -1;
  }
  const auto found = std::lower_bound(block.ids().begin(), block.ids().end(), id);
  return found != block.ids().end() && *found == id ? static_cast<int>(found - block.ids().begin()) : -1;
}

// Where in a block these tensors are: from, and to before. Ids rise within a block.
std::pair<std::uint32_t, std::uint32_t> within(const v1::RecordBlock& block, TensorIds ids) {
  const std::uint32_t size = records_of(block);
  if (!block.ids().empty()) {
    const auto first = std::lower_bound(block.ids().begin(), block.ids().end(), ids.first);
    const auto last = std::upper_bound(first, block.ids().end(), ids.last);
    return {static_cast<std::uint32_t>(first - block.ids().begin()), static_cast<std::uint32_t>(last - block.ids().begin())};
  }
  const auto index_of = [&](std::uint64_t id) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, id > block.first_id() ? id - block.first_id() : 0));
  };
  return {index_of(ids.first), index_of(std::uint64_t{ids.last} + 1)};
}

}  // namespace

void add_records(const v1::Report& report, const NumelOf& numel_of, RecordsById& records, TensorIds ids) {
  for (const auto& block : report.blocks()) {
    const auto [begin, end] = within(block, ids);
    const std::size_t first = records.size();
    records.reserve(first + (end - begin));
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::uint32_t id = id_at(block, i);
      dense_record(block, static_cast<int>(i), numel_of(id), records.emplace_back(id, Measured()).second);
    }
    sparse_part(block, [&, from = begin](std::uint32_t index) {
      const std::size_t at = first + (index - from);
      return index >= from && at < records.size() ? &records[at].second : nullptr;
    });
  }
}

void for_each_record(const v1::Report& report, const NumelOf& numel_of,
                     const std::function<void(std::uint32_t id, const Measured&)>& visit, TensorIds ids) {
  RecordsById records;
  add_records(report, numel_of, records, ids);
  for (const auto& [id, measured] : records) visit(id, measured);
}

std::optional<Measured> find_record(const v1::Report& report, std::uint32_t id, std::uint64_t numel) {
  for (const auto& block : report.blocks()) {
    const int index = position(block, id);
    if (index < 0) continue;
    Measured measured;
    dense_record(block, index, numel, measured);
    sparse_part(block, [&](std::uint32_t other) { return other == static_cast<std::uint32_t>(index) ? &measured : nullptr; });
    return measured;
  }
  return std::nullopt;
}

}  // namespace scalewatch::history
