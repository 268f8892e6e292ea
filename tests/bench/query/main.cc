// How long queries over big histories take, each beside its goal.
//   scalewatch_bench_query [--json] [--attempts N] [--tensors N] [--long N] [--runs N] [--rounds N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "server/history/history_api.h"
#include "tests/bench/query/store.h"

namespace {

using namespace scalewatch;
using Clock = std::chrono::steady_clock;

struct Arguments {
  bool json = false;
  std::uint32_t attempts = 10'000;  // of the wide run
  std::uint32_t tensors = 10'000;
  std::uint32_t lengthy = 1'000'000;  // attempts of the long run, which has 32 tensors
  std::uint32_t runs = 10'000;
  std::uint32_t rounds = 20;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto number = [&] {
      const unsigned long value = i + 1 < argc ? std::strtoul(argv[++i], nullptr, 10) : 0;
      if (value == 0 || value > 100'000'000) throw std::invalid_argument(std::string(flag) + " needs a number from 1");
      return static_cast<std::uint32_t>(value);
    };
    if (flag == "--json") {
      out.json = true;
    } else if (flag == "--attempts") {
      out.attempts = number();
    } else if (flag == "--tensors") {
      out.tensors = number();
    } else if (flag == "--long") {
      out.lengthy = number();
    } else if (flag == "--runs") {
      out.runs = number();
    } else if (flag == "--rounds") {
      out.rounds = number();
    } else {
      throw std::invalid_argument(
          "usage: scalewatch_bench_query [--json] [--attempts N] [--tensors N] [--long N] [--runs N] [--rounds N]");
    }
  }
  return out;
}

// Of this thread, which answers the queries: on a busy machine the time that waits for a core is not the store's.
double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class Report {
 public:
  explicit Report(const Arguments& arguments) : arguments_(arguments) {}

  // `ask` runs once unmeasured, for what is cached for a request's whole life.
  void measure(const char* what, double goal_ms, const std::function<void()>& ask) {
    ask();
    std::vector<double> times;
    std::vector<double> cpu;
    for (std::uint32_t i = 0; i < arguments_.rounds; ++i) {
      const auto start = Clock::now();
      const double cpu_before = cpu_ms();
      ask();
      times.push_back(ms_since(start));
      cpu.push_back(cpu_ms() - cpu_before);
    }
    std::sort(times.begin(), times.end());
    std::sort(cpu.begin(), cpu.end());
    const double median = times[times.size() / 2];
    const double last = times[std::min(times.size() - 1, times.size() * 99 / 100)];
    if (arguments_.json) {
      std::printf("%s\"%s\": {\"p50_ms\": %.2f, \"p99_ms\": %.2f, \"cpu_ms\": %.2f, \"goal_ms\": %.0f}", first_ ? "{" : ", ",
                  what, median, last, cpu[cpu.size() / 2], goal_ms);
    } else {
      std::printf("%-58s p50 %8.2f ms  p99 %8.2f ms  CPU %7.2f ms  goal %4.0f ms\n", what, median, last, cpu[cpu.size() / 2],
                  goal_ms);
    }
    std::fflush(stdout);
    first_ = false;
  }
  void tell(const char* what, double value, const char* unit) {
    if (arguments_.json) {
      std::printf("%s\"%s\": %.2f", first_ ? "{" : ", ", what, value);
    } else {
      std::printf("%-58s %.2f %s\n", what, value, unit);
    }
    std::fflush(stdout);
    first_ = false;
  }
  void end() const {
    if (arguments_.json) std::printf("}\n");
  }

 private:
  const Arguments& arguments_;
  bool first_ = true;
};

std::unique_ptr<engine::HistoryApi> make_api(history::SqliteStore& store) {
  history::ApiLimits limits;
  limits.read_time = std::chrono::minutes(1);  // so that a slow answer is measured rather than cut
  return history::make_history_api(store, limits);
}

template <class Response>
void check(const engine::Status& status, const Response& response) {
  if (!status.ok()) throw std::runtime_error(status.message);
  if (response.ByteSizeLong() == 0) throw std::runtime_error("an empty answer");
}

void lengthy(const Arguments& arguments, Report& report) {
  constexpr std::uint32_t kTensors = 32;
  const bench::Folder folder;
  const auto store = bench::open_store(folder.path());
  bench::fill(*store, {"long", kTensors, arguments.lengthy});
  const auto api = make_api(*store);
  std::minstd_rand random(5);
  report.measure("one tensor, all attempts of a long run, 1,000 points", 50, [&] {
    v1::GetTensorHistoryRequest request;
    request.set_run("long");
    request.set_tensor("layers." + std::to_string(random() % kTensors) + ".weight");
    v1::GetTensorHistoryResponse response;
    check(api->get_tensor_history(request, response), response);
    if (response.truncated()) throw std::runtime_error("the history was truncated");
  });
  report.measure("scaler, all attempts of a long run, 1,000 points", 50, [&] {
    v1::GetScalerHistoryRequest request;
    request.set_run("long");
    v1::GetScalerHistoryResponse response;
    check(api->get_scaler_history(request, response), response);
  });
}

void wide(const Arguments& arguments, Report& report) {
  const bench::Folder folder;
  auto store = bench::open_store(folder.path());
  const auto start = Clock::now();
  bench::fill(*store, {"wide", arguments.tensors, arguments.attempts});
  const double records = static_cast<double>(arguments.tensors) * arguments.attempts;
  report.tell("writing and compacting the wide run, ns a record", ms_since(start) * 1e6 / records, "ns");
  const auto api = make_api(*store);
  std::minstd_rand random(6);
  const auto snapshot = [&](std::uint64_t attempt, bool all) {
    v1::GetAttemptRequest request;
    request.set_run("wide");
    request.set_attempt(attempt);
    request.set_page_size(1000);
    do {
      v1::GetAttemptResponse response;
      check(api->get_attempt(request, response), response);
      request.set_page_token(response.next_page_token());
    } while (all && !request.page_token().empty());
  };
  report.measure("snapshot, newest attempt, first page of 1,000 tensors", 20, [&] { snapshot(0, false); });
  report.measure("snapshot, newest attempt, all pages", 20, [&] { snapshot(0, true); });
  const std::uint64_t old = std::max<std::uint32_t>(1, arguments.attempts - 300);
  report.measure("snapshot, an older attempt, first page", 100, [&] { snapshot(1 + random() % old, false); });
  report.measure("snapshot, an older attempt, all pages", 100, [&] { snapshot(1 + random() % old, true); });
  for (const auto by :
       {v1::TopTensorsRequest::BY_HEADROOM, v1::TopTensorsRequest::BY_NORM, v1::TopTensorsRequest::BY_NON_FINITE}) {
    report.measure(("top 20 of the wide run, " + v1::TopTensorsRequest::By_Name(by)).c_str(), 100, [&] {
      v1::TopTensorsRequest request;
      request.set_run("wide");
      request.set_by(by);
      request.mutable_range()->set_first(1);
      request.mutable_range()->set_last(arguments.attempts);
      v1::TopTensorsResponse response;
      check(api->top_tensors(request, response), response);
      if (response.range().first() != 1) throw std::runtime_error("not all attempts were read");
    });
  }
  report.measure("heat map, 200 tensors x 500 columns", 200, [&] {
    v1::GetHeatMapRequest request;
    request.set_run("wide");
    request.set_max_tensors(200);
    request.set_max_columns(500);
    v1::GetHeatMapResponse response;
    check(api->get_heat_map(request, response), response);
    if (response.truncated()) throw std::runtime_error("the heat map was truncated");
  });
  store->compactor().run_now(true);
  store.reset();
  report.tell("bytes a record on disk, fp16, all in",
              static_cast<double>(std::filesystem::file_size(folder.path() / "history.db")) / records, "bytes (goal 16)");
}

void many_runs(const Arguments& arguments, Report& report) {
  const bench::Folder folder;
  const auto store = bench::open_store(folder.path());
  bench::fill_runs(*store, arguments.runs);
  const auto api = make_api(*store);
  const auto list = [&](bool all) {
    v1::ListRunsRequest request;
    request.set_page_size(1000);
    do {
      v1::ListRunsResponse response;
      check(api->list_runs(request, response), response);
      request.set_page_token(response.next_page_token());
    } while (all && !request.page_token().empty());
  };
  report.measure("runs listed, first page of 1,000", 20, [&] { list(false); });
  report.measure("runs listed, all pages", 20, [&] { list(true); });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    Report report(arguments);
    many_runs(arguments, report);
    lengthy(arguments, report);
    wide(arguments, report);
    report.end();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scalewatch_bench_query: %s\n", error.what());
    return 1;
  }
}
