// The histograms of an attempt's tensors, merged over ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "server/history/catalog.h"
#include "server/history/report_reader.h"
#include "server/history/stored_records.h"

namespace scalewatch::history {

// Not thread-safe.
class AttemptOctaves {
 public:
  AttemptOctaves(const Catalog& catalog, StoredRecords& stored) : catalog_(catalog), stored_(stored) {}

  // Adds one rank's reports; ranks come in rising order. Throws ApiError for a report that can't be read.
  void add(const RankReports& reports);
  // The histogram of the tensor at this position in the catalog; absent unless it holds every element of its record.
  [[nodiscard]] std::optional<v1::Octaves> of(std::uint32_t position, const v1::Record& record) const;
  void clear() { sums_.clear(); }

 private:
  static constexpr int kFirst = -149;  // exponents of fp32
  static constexpr int kOctaves = 277;
  struct Sum {
    std::vector<std::uint32_t> shards;  // replicas of one count once
    std::vector<std::uint64_t> counts;  // from kFirst
    double scale = 1;                   // that they were measured under
    bool mixed = false;                 // shards under several scales do not add up
  };

  const Catalog& catalog_;
  StoredRecords& stored_;
  std::unordered_map<std::uint32_t, Sum> sums_;  // by position in the catalog
};

}  // namespace scalewatch::history
