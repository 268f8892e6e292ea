// From the columns of a stored report to the records of single tensors.
//
// Pure and thread-safe. Reports were checked when they were taken in; a column that is too short all the same reads as absent
// (NaN or 0), never beyond its end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "scalewatch/v1/ingest.pb.h"
#include "server/history/measured.h"

namespace scalewatch::history {

// Elements of one measurement of the tensor with this id, by the incarnation's table.
using NumelOf = std::function<std::uint64_t(std::uint32_t id)>;

// Ids of tensors, both ends inclusive.
struct TensorIds {
  std::uint32_t first = 0;
  std::uint32_t last = UINT32_MAX;
};

// Adds every record of these tensors in a report, in the order of its blocks.
using RecordsById = std::vector<std::pair<std::uint32_t, Measured>>;
void add_records(const v1::Report& report, const NumelOf& numel_of, RecordsById& records, TensorIds ids = {});

// Calls `visit` for each of them.
void for_each_record(const v1::Report& report, const NumelOf& numel_of,
                     const std::function<void(std::uint32_t id, const Measured&)>& visit, TensorIds ids = {});

// The record of one tensor; absent when the report has none.
std::optional<Measured> find_record(const v1::Report& report, std::uint32_t id, std::uint64_t numel);

// Records of a block, and the tensor of each.
std::uint32_t records_of(const v1::RecordBlock& block);
inline std::uint32_t id_at(const v1::RecordBlock& block, std::uint32_t index) {
  return block.ids().empty() ? block.first_id() + index : block.ids(static_cast<int>(index));
}
// A block's record at `index`, without its sparse columns: these are left alone.
void dense_record(const v1::RecordBlock& block, int index, std::uint64_t numel, Measured& measured);

}  // namespace scalewatch::history
