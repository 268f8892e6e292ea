// What the tests of the history share: a folder that goes away, a run with its streams, and reports filled by hand.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"
#include "scalewatch/v1/ingest.pb.h"
#include "server/engine/ports/history_store.h"
#include "server/history/sqlite_store.h"

namespace scalewatch::history {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "scalewatch-history-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
    path = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::filesystem::path path;
};

inline engine::Incarnation incarnation(std::uint8_t number) {
  engine::Incarnation bytes{};
  bytes.fill(number);
  return bytes;
}

inline engine::RunRow run_row(const std::string& uid, const std::string& name) {
  engine::RunRow row;
  row.run_uid = uid;
  row.name = name;
  row.created_ms = 1000;
  row.last_report_ms = 2000;
  row.segment = 1;
  row.status = v1::RUN_STATUS_RUNNING;
  row.overview = v1::GetRunResponse().SerializeAsString();
  return row;
}

inline engine::IncarnationRow incarnation_row(const std::string& uid, std::uint32_t rank, std::uint8_t number,
                                              std::uint32_t segment = 1) {
  engine::IncarnationRow row;
  row.run_uid = uid;
  row.rank = rank;
  row.incarnation = incarnation(number);
  row.order = number;
  row.segment = segment;
  return row;
}

struct Tensor {
  std::string name;
  v1::Role role = v1::ROLE_GRADIENT;
  std::uint32_t forward_index = 0;
  std::string shard = {};
  std::uint64_t numel = 100;
};

inline engine::TableRow table_row(const engine::IncarnationRow& stream, const std::vector<Tensor>& tensors,
                                  std::uint32_t version = 1, std::uint32_t first_id = 0) {
  v1::TableDelta delta;
  delta.set_version(version);
  delta.set_first_id(first_id);
  for (const auto& tensor : tensors) {
    auto* info = delta.add_infos();
    info->set_name(tensor.name);
    info->set_role(tensor.role);
    info->set_numel(tensor.numel);
    info->set_forward_index(tensor.forward_index);
    info->set_shard(tensor.shard);
  }
  return {stream.run_uid, stream.rank, stream.incarnation, version, first_id, delta.SerializeAsString()};
}

// One record of a block; what is not said is zero or absent.
struct Value {
  std::uint32_t id = 0;
  float absmax = 1;
  std::uint64_t nan = 0;
  std::uint64_t pos_inf = 0;
  std::uint64_t subnormal = 0;
};

inline v1::Report report_of(const std::vector<Value>& values, double scale = 1) {
  v1::Report report;
  auto& block = *report.add_blocks();
  block.set_role(v1::ROLE_GRADIENT);
  block.set_measured_under_scale(scale);
  block.set_target(v1::DTYPE_FP16);
  block.set_count(static_cast<std::uint32_t>(values.size()));
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const auto& value = values[i];
    block.add_ids(value.id);
    block.add_min(-value.absmax);
    block.add_max(value.absmax / 2);
    block.add_absmin_nonzero(value.absmax / 4);
    block.add_sum(value.absmax);
    block.add_sum_sq(value.absmax * value.absmax);
    block.add_subnormal(value.subnormal);
    const auto sparse = [&](auto* list, std::uint64_t count) {
      if (count == 0) return;
      auto* entry = list->Add();
      entry->set_index(i);
      entry->set_count(count);
    };
    sparse(block.mutable_nan(), value.nan);
    sparse(block.mutable_pos_inf(), value.pos_inf);
  }
  return report;
}

inline engine::ReportRow report_row(const engine::IncarnationRow& stream, std::uint64_t seq, std::uint64_t pos,
                                    std::uint64_t attempt, const v1::Report& report = {}) {
  engine::ReportRow row;
  row.run_uid = stream.run_uid;
  row.rank = stream.rank;
  row.incarnation = stream.incarnation;
  row.seq = seq;
  row.pos = pos;
  row.segment = stream.segment;
  row.attempt = attempt;
  row.step = static_cast<std::int64_t>(attempt) * 10;
  row.time_ms = 5000;
  row.payload = report.SerializeAsString();
  return row;
}

inline engine::ScalerRow scaler_row(std::int32_t outcome, double before, double after, std::uint32_t scaler = 0) {
  engine::ScalerRow row;
  row.scaler = scaler;
  row.scale_before = before;
  row.scale_after = after;
  row.growth_tracker = 7;
  row.outcome = outcome;
  return row;
}

inline std::vector<engine::HistoryStore::LogEntry> read_all(SqliteStore& store, const std::string& uid,
                                                            std::uint64_t after = 0) {
  std::vector<engine::HistoryStore::LogEntry> entries;
  store.read_log(uid, after, [&](const auto& entry) { entries.push_back(entry); });
  return entries;
}

inline std::size_t count_reports(SqliteStore& store, const std::string& uid) {
  std::size_t count = 0;
  for (const auto& entry : read_all(store, uid)) count += entry.report ? 1 : 0;
  return count;
}

}  // namespace scalewatch::history
