#include "tests/bench/query/store.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <system_error>
#include <vector>

#include "scalewatch/v1/history.pb.h"
#include "scalewatch/v1/ingest.pb.h"

namespace scalewatch::bench {
namespace {

constexpr std::size_t kCommitBytes = std::size_t{8} << 20;

float fp16(std::minstd_rand& random, int exponent) {
  return std::ldexp(static_cast<float>(1024 + random() % 1024), exponent - 10);
}

v1::Report report(std::minstd_rand& random, std::uint64_t attempt, std::uint32_t tensors) {
  v1::Report out;
  out.set_seq(attempt);
  out.set_attempt(attempt);
  out.set_step(static_cast<std::int64_t>(attempt));
  out.set_loss(2 + static_cast<double>(random() % 1000) / 1000);
  auto* scaler = out.add_scalers();
  scaler->set_scale_before(65536);
  scaler->set_scale_after(65536);
  scaler->set_growth_tracker(attempt % 2000);
  auto& block = *out.add_blocks();
  block.set_role(v1::ROLE_GRADIENT);
  block.set_measured_under_scale(65536);
  block.set_target(v1::DTYPE_FP16);
  block.set_count(tensors);
  for (std::uint32_t i = 0; i < tensors; ++i) {
    const int exponent = static_cast<int>(i % 11) - 5 + static_cast<int>(random() % 2);
    block.add_min(-fp16(random, exponent));
    block.add_max(fp16(random, exponent));
    block.add_absmin_nonzero(fp16(random, exponent - 18 - static_cast<int>(random() % 3)));
    block.add_sum(static_cast<float>(static_cast<int>(random() % 2'000'003) - 1'000'001) * 1e-4F);
    block.add_sum_sq(static_cast<float>(8'000'000 + random() % 8'388'608) * 1e-3F);
    block.add_subnormal(random() % 16);
    if (random() % 10'000 == 0) {
      auto* nan = block.add_nan();
      nan->set_index(i);
      nan->set_count(1);
    }
  }
  return out;
}

}  // namespace

Folder::Folder(std::filesystem::path kept) : path_(std::move(kept)), temporary_(path_.empty()) {
  if (!temporary_) {
    std::filesystem::create_directories(path_);
    return;
  }
  std::string name = (std::filesystem::temp_directory_path() / "scalewatch-query-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  if (temporary_) std::filesystem::remove_all(path_, ignored);
}

std::unique_ptr<history::SqliteStore> open_store(const std::filesystem::path& folder) {
  history::StoreOptions options;
  options.compaction.thread = false;
  options.read_transaction = std::chrono::minutes(1);  // a slow read is measured, not cut
  return history::SqliteStore::open(folder, options);
}

void fill(history::SqliteStore& store, const StoreShape& shape) {
  engine::CommitBatch batch;
  engine::RunRow run;
  run.run_uid = run.name = shape.run;
  run.created_ms = run.last_report_ms = 1'700'000'000'000;
  run.segment = 1;
  run.status = v1::RUN_STATUS_FINISHED;
  run.overview = v1::GetRunResponse().SerializeAsString();
  engine::IncarnationRow stream;
  stream.run_uid = shape.run;
  stream.order = 1;
  v1::TableDelta table;
  table.set_version(1);
  for (std::uint32_t i = 0; i < shape.tensors; ++i) {
    auto* info = table.add_infos();
    info->set_name("layers." + std::to_string(i) + ".weight");
    info->set_role(v1::ROLE_GRADIENT);
    info->set_dtype(v1::DTYPE_FP16);
    info->set_numel(4'194'304);
    info->set_forward_index(i);
  }
  batch.runs = {run};
  batch.incarnations = {stream};
  batch.tables = {{shape.run, 0, stream.incarnation, 1, 0, table.SerializeAsString()}};
  std::minstd_rand random(1);
  std::size_t bytes = 0;
  for (std::uint64_t attempt = 1; attempt <= shape.attempts; ++attempt) {
    engine::ReportRow row;
    row.run_uid = shape.run;
    row.incarnation = stream.incarnation;
    row.seq = row.pos = row.attempt = attempt;
    row.step = static_cast<std::int64_t>(attempt);
    row.time_ms = run.created_ms + static_cast<std::int64_t>(attempt) * 700;
    const auto message = report(random, attempt, shape.tensors);
    row.loss = message.loss();
    engine::ScalerRow scaler;
    scaler.scale_before = scaler.scale_after = 65536;
    scaler.growth_tracker = static_cast<std::int64_t>(attempt % 2000);
    scaler.outcome = attempt % 500 == 0 ? 2 : 1;
    row.scalers = {scaler};
    row.payload = message.SerializeAsString();
    bytes += row.payload.size() + 64;
    batch.reports.push_back(std::move(row));
    if (bytes < kCommitBytes && attempt < shape.attempts) continue;
    store.commit(batch);
    batch = {};
    bytes = 0;
    store.compactor().run_now(false);
  }
}

void fill_runs(history::SqliteStore& store, std::uint32_t runs) {
  engine::CommitBatch batch;
  for (std::uint32_t i = 0; i < runs; ++i) {
    engine::RunRow run;
    run.run_uid = "uid" + std::to_string(i);
    run.name = "nightly-" + std::to_string(i);
    run.created_ms = run.last_report_ms = 1'700'000'000'000 + i;
    run.segment = 1;
    run.status = v1::RUN_STATUS_FINISHED;
    v1::GetRunResponse overview;
    auto& summary = *overview.mutable_run();
    summary.set_attempts(100'000);
    summary.set_scale(65536);
    summary.set_framework("pytorch 2.4");
    (*summary.mutable_labels())["team"] = "vision";
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      auto* one = overview.add_ranks();
      one->set_rank(rank);
      one->set_host("node-" + std::to_string(rank));
      one->set_last_attempt(100'000);
    }
    overview.add_scalers()->set_policy("pytorch");
    run.overview = overview.SerializeAsString();
    batch.runs.push_back(std::move(run));
  }
  store.commit(batch);
}

}  // namespace scalewatch::bench
