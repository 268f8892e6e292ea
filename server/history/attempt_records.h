// All tensors of an attempt, merged over ranks.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/history/catalog.h"
#include "server/history/measured.h"
#include "server/history/report_reader.h"
#include "server/history/stored_records.h"

namespace scalewatch::history {

// Not thread-safe. Reused from attempt to attempt, for its size is that of the catalog.
class AttemptRecords {
 public:
  AttemptRecords(const Catalog& catalog, StoredRecords& stored) : catalog_(catalog), stored_(stored) {}

  // From now on only tensors at these positions in the catalog, `begin` to before `end`, are added; what was is forgotten.
  void only(std::size_t begin, std::size_t end) {
    begin_ = begin;
    end_ = end;
    merges_.clear();
    touched_.clear();
  }
  // Adds one rank's reports; ranks come in rising order. Throws ApiError for a payload that can't be read.
  void add(const RankReports& reports);
  // Positions in the catalog of the tensors that have a record, in forward order.
  [[nodiscard]] std::vector<std::uint32_t> present() const;
  [[nodiscard]] const RankMerge& of(std::uint32_t tensor) const { return merges_.empty() ? none_ : merges_[tensor - begin_]; }
  void clear();

 private:
  const Catalog& catalog_;
  StoredRecords& stored_;
  const RankMerge none_;
  std::vector<RankMerge> merges_;  // from `begin_` on
  std::vector<std::uint32_t> touched_;
  std::size_t begin_ = 0;
  std::size_t end_ = SIZE_MAX;
};

// One tensor of the reports of one attempt.
class TensorRecords {
 public:
  TensorRecords(const Catalog& catalog, StoredRecords& stored, std::uint32_t tensor)
      : catalog_(catalog), stored_(stored), tensor_(tensor) {}

  void add(const RankReports& reports);
  [[nodiscard]] const RankMerge& merged() const { return merge_; }
  void clear() { merge_.clear(); }

 private:
  // Ids of the tensor in a table.
  const std::vector<std::uint32_t>& ids(const std::vector<Catalog::Slot>& slots);

  const Catalog& catalog_;
  StoredRecords& stored_;
  const std::uint32_t tensor_;
  RankMerge merge_;
  std::unordered_map<const std::vector<Catalog::Slot>*, std::vector<std::uint32_t>> ids_;
};

}  // namespace scalewatch::history
