// Runs with everything in them, and all that can be asked of one: whatever holds the rows, the answers are the same.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "server/history/history_api.h"
#include "tests/unit/history/random_reports.h"

namespace scalewatch::history {

inline constexpr std::uint32_t kTensors = 140;  // three chunks side by side, the last one short

inline std::vector<Tensor> tensors(const std::string& shard = "") {
  std::vector<Tensor> all;
  for (std::uint32_t i = 0; i < kTensors; ++i) {
    all.push_back({"t" + std::to_string(i), i < kTensors / 2 ? v1::ROLE_GRADIENT : v1::ROLE_PARAMETER, i % 70, shard, 1000});
  }
  return all;
}

inline engine::ReportRow row_of(const engine::IncarnationRow& stream, std::uint64_t seq, std::uint64_t pos,
                                std::uint64_t attempt, const v1::Report& report) {
  auto row = report_row(stream, seq, pos, attempt, report);
  row.loss = report.loss();
  row.scalers = {scaler_row(attempt % 11 == 0 ? 2 : 1, 1024, 1024)};
  return row;
}

// One rank, `reports` attempts with a gap now and then.
inline std::vector<engine::CommitBatch> one_rank(std::uint32_t seed, std::uint64_t reports) {
  std::mt19937 random(seed);
  std::vector<engine::CommitBatch> batches(1);
  batches[0].runs = {run_row("u1", "alpha")};
  const auto stream = incarnation_row("u1", 0, 1);
  batches[0].incarnations = {stream};
  batches[0].tables = {table_row(stream, tensors())};
  std::uint64_t attempt = 0;
  for (std::uint64_t seq = 1; seq <= reports; ++seq) {
    attempt += random() % 20 == 0 ? 3 : 1;
    if (seq % 16 == 1) batches.emplace_back();
    batches.back().reports.push_back(row_of(stream, seq, seq, attempt, random_report(random, attempt, kTensors)));
    if (seq % 60 == 0) {
      auto detail = report_row(stream, reports + seq, reports + seq, attempt - 5, random_report(random, attempt, kTensors));
      detail.retrospective = true;
      batches.back().reports.push_back(detail);
    }
  }
  return batches;
}

// Three ranks: two shards and a replica; rank 1 starts again and goes over some attempts a second time.
inline std::vector<engine::CommitBatch> ranks_and_restarts(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<engine::CommitBatch> batches(1);
  batches[0].runs = {run_row("u1", "alpha")};
  std::vector<engine::IncarnationRow> streams;
  for (std::uint32_t rank = 0; rank < 3; ++rank) streams.push_back(incarnation_row("u1", rank, 1));
  streams.push_back(incarnation_row("u1", 1, 2));
  for (const auto& stream : streams) {
    batches[0].incarnations.push_back(stream);
    batches[0].tables.push_back(table_row(stream, tensors(stream.rank == 0 ? "0/2" : "1/2")));
  }
  std::uint64_t pos = 0;
  std::vector<std::uint64_t> seqs(streams.size());
  const auto add = [&](std::size_t stream, std::uint64_t attempt) {
    batches.back().reports.push_back(
        row_of(streams[stream], ++seqs[stream], ++pos, attempt, random_report(random, attempt, kTensors)));
  };
  for (std::uint64_t attempt = 1; attempt <= 330; ++attempt) {
    if (attempt % 16 == 1) batches.emplace_back();
    add(0, attempt);
    if (attempt <= 190) add(1, attempt);
    if (attempt >= 170) add(3, attempt);
    if (attempt > 100) add(2, attempt);
  }
  return batches;
}

// All that can be asked, as text.
inline std::string answers(engine::HistoryApi& api) {
  std::string all;
  const auto ask = [&](const auto& request, auto response, auto call) {
    const auto status = (api.*call)(request, response);
    all += request.ShortDebugString() + " -> " + status.message + " " + response.DebugString() + "\n";
  };
  for (const std::uint32_t points : {7U, 50U, 1000U}) {
    for (const char* tensor : {"t0", "t63", "t70", "t139"}) {
      for (const auto& [first, last] : {std::pair{0, 0}, {37, 291}}) {
        v1::GetTensorHistoryRequest request;
        request.set_run("alpha");
        request.set_tensor(tensor);
        request.set_max_points(points);
        request.mutable_range()->set_first(first);
        request.mutable_range()->set_last(last);
        ask(request, v1::GetTensorHistoryResponse(), &engine::HistoryApi::get_tensor_history);
        request.set_rank(1);
        ask(request, v1::GetTensorHistoryResponse(), &engine::HistoryApi::get_tensor_history);
      }
    }
    v1::GetScalerHistoryRequest request;
    request.set_run("alpha");
    request.set_max_points(points);
    ask(request, v1::GetScalerHistoryResponse(), &engine::HistoryApi::get_scaler_history);
    request.mutable_range()->set_first(70);
    request.set_rank(1);
    ask(request, v1::GetScalerHistoryResponse(), &engine::HistoryApi::get_scaler_history);
  }
  for (const std::uint64_t attempt : {1, 64, 129, 200, 300}) {
    v1::GetAttemptRequest request;
    request.set_run("alpha");
    request.set_attempt(attempt);
    request.set_page_size(1000);
    request.set_octaves(true);
    ask(request, v1::GetAttemptResponse(), &engine::HistoryApi::get_attempt);
  }
  for (int by = 0; by <= v1::TopTensorsRequest::BY_NORM; ++by) {
    for (const auto& [first, last] : {std::pair{0, 0}, {1, 100000}, {20, 215}}) {
      v1::TopTensorsRequest request;
      request.set_run("alpha");
      request.set_by(static_cast<v1::TopTensorsRequest::By>(by));
      request.mutable_range()->set_first(first);
      request.mutable_range()->set_last(last);
      request.set_limit(by == 4 ? 1000 : 9);
      ask(request, v1::TopTensorsResponse(), &engine::HistoryApi::top_tensors);
    }
  }
  for (int by = 0; by <= v1::TopTensorsRequest::BY_NORM; ++by) {
    for (const auto& [first, last] : {std::pair{0, 0}, {25, 250}, {131, 160}}) {
      v1::GetHeatMapRequest request;
      request.set_run("alpha");
      request.set_by(static_cast<v1::TopTensorsRequest::By>(by));
      request.set_max_tensors(12);
      request.set_max_columns(9);
      request.mutable_range()->set_first(first);
      request.mutable_range()->set_last(last);
      ask(request, v1::GetHeatMapResponse(), &engine::HistoryApi::get_heat_map);
    }
  }
  v1::ListTensorsRequest list;
  list.set_run("alpha");
  list.set_page_size(200);
  ask(list, v1::ListTensorsResponse(), &engine::HistoryApi::list_tensors);
  return all;
}

inline void expect_same(const std::string& expected, const std::string& got, const std::string& when) {
  if (expected == got) return;
  const auto at = static_cast<std::size_t>(std::mismatch(expected.begin(), expected.end(), got.begin(), got.end()).first -
                                           expected.begin());
  const std::size_t begin = expected.rfind(" -> ", at);
  FAIL() << when << " at " << at << ", of " << expected.substr(expected.rfind('\n', begin) + 1, 200) << "\nexpected ..."
         << expected.substr(at > 200 ? at - 200 : 0, 400) << "\ngot ..." << got.substr(at > 200 ? at - 200 : 0, 400);
}

}  // namespace scalewatch::history
