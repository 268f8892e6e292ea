// Questions about histories of which only ClickHouse has the rows.
#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "server/history/clickhouse/feeder.h"
#include "server/history/clickhouse/older.h"
#include "server/history/clickhouse/shared.h"
#include "server/history/history_api.h"
#include "tests/bench/clickhouse/parts.h"
#include "tests/bench/query/store.h"

namespace scalewatch::bench {

namespace {

class WallClock final : public engine::Clock {
 public:
  [[nodiscard]] std::int64_t wall_ms() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  [[nodiscard]] std::int64_t steady_ms() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

struct History {
  std::unique_ptr<Folder> folder = std::make_unique<Folder>();
  std::unique_ptr<history::SqliteStore> store;
};

// A store that knows names only: all rows are in ClickHouse.
History far_history(const StoreShape& shape, const clickhouse::Options& options) {
  const WallClock clock;
  History made;
  Folder full_folder;
  {
    const auto full = open_store(full_folder.path());
    fill(*full, shape);
    const std::string uid = full->find_run(shape.run)->run_uid;
    clickhouse::Feeder feeder(options, {"bench", false}, *full, clock);
    feeder.start({});
    if (!feeder.drain(uid, std::chrono::minutes(30))) throw std::runtime_error("ClickHouse took too long");
    feeder.stop(std::chrono::seconds(1));
    made.store = open_store(made.folder->path());
    clickhouse::Shared shared(options, clock);
    if (!history::import_run(shared, uid, 0, *made.store)) throw std::runtime_error("the run is not there");
  }
  return made;
}

void ask(const std::string& name, int rounds, Output& out, const std::function<engine::Status()>& question) {
  std::vector<double> times;
  const auto cpu = [] { return cpu_of_server() + static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const double cpu_before = cpu();
  for (int i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    const engine::Status status = question();
    if (!status.ok()) throw std::runtime_error(name + ": " + status.message);
    times.push_back(seconds_since(begin) * 1e3);
  }
  std::sort(times.begin(), times.end());
  out.put(name + ", p50", times[times.size() / 2], "ms");
  out.put(name + ", longest", times.back(), "ms");
  out.put(name + ", CPU here and there", (cpu() - cpu_before) / rounds * 1e3, "ms");
}

}  // namespace

void questions(const Arguments& arguments, const clickhouse::Options& options, Output& out) {
  constexpr int kRounds = 9;
  clickhouse::Older older(options);
  history::ApiLimits limits;
  limits.read_time = std::chrono::minutes(2);
  if (arguments.lengthy > 0) {
    const History far = far_history({.run = "long", .tensors = 32, .attempts = arguments.lengthy}, options);
    const auto api = history::make_history_api(*far.store, limits, &older);
    v1::ListTensorsRequest list;
    list.set_run("long");
    list.set_page_size(1);
    v1::ListTensorsResponse listed;
    if (const auto status = api->list_tensors(list, listed); !status.ok()) throw std::runtime_error(status.message);
    const std::string attempts = std::to_string(arguments.lengthy) + " attempts";
    ask("a tensor over " + attempts, kRounds, out, [&] {
      v1::GetTensorHistoryRequest request;
      request.set_run("long");
      request.set_tensor(listed.tensors(0).info().name());
      request.set_role(listed.tensors(0).info().role());
      v1::GetTensorHistoryResponse response;
      return api->get_tensor_history(request, response);
    });
    ask("a scaler over " + attempts, kRounds, out, [&] {
      v1::GetScalerHistoryRequest request;
      request.set_run("long");
      v1::GetScalerHistoryResponse response;
      return api->get_scaler_history(request, response);
    });
  }
  const History far = far_history({.run = "wide", .tensors = arguments.wide, .attempts = arguments.attempts}, options);
  const auto api = history::make_history_api(*far.store, limits, &older);
  const std::string attempts = std::to_string(arguments.attempts) + " attempts";
  const std::string tensors = std::to_string(arguments.wide) + " tensors";
  ask("an old attempt of " + tensors + ", 1,000 at once", kRounds, out, [&] {
    v1::GetAttemptRequest request;
    request.set_run("wide");
    request.set_attempt(arguments.attempts / 3);
    request.set_page_size(1000);
    v1::GetAttemptResponse response;
    return api->get_attempt(request, response);
  });
  ask("top 20 of " + tensors + " over 100 attempts", kRounds, out, [&] {
    v1::TopTensorsRequest request;
    request.set_run("wide");
    v1::TopTensorsResponse response;
    return api->top_tensors(request, response);
  });
  const auto all_top = [&](v1::TopTensorsRequest::By by) {
    v1::TopTensorsRequest request;
    request.set_run("wide");
    request.set_by(by);
    request.mutable_range()->set_first(1);
    request.mutable_range()->set_last(arguments.attempts);
    v1::TopTensorsResponse response;
    return api->top_tensors(request, response);
  };
  ask("top 20 of " + tensors + " over " + attempts, kRounds, out, [&] { return all_top(v1::TopTensorsRequest::BY_HEADROOM); });
  const auto picture = [&](std::uint32_t most, const std::string& named) {
    v1::GetHeatMapRequest request;
    request.set_run("wide");
    request.set_max_tensors(most);
    request.set_tensor_contains(named);
    v1::GetHeatMapResponse response;
    return api->get_heat_map(request, response);
  };
  ask("heat map of 10 named tensors over " + attempts, kRounds, out, [&] { return picture(10, "."); });
  ask("heat map of the worst of " + tensors + " over " + attempts, kRounds, out, [&] { return picture(0, ""); });
  const double records = static_cast<double>(arguments.attempts) * arguments.wide + static_cast<double>(arguments.lengthy) * 32;
  for (const char* table : {"records", "scores", "non_finite", "reports", "payloads"}) {
    out.put("bytes a record in " + std::string(table) + ", merged", merged_bytes(options, table) / records, "", 2);
  }
}

}  // namespace scalewatch::bench
