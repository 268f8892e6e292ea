// How long a server takes to answer questions about big histories, each beside its goal: at rest, and while ingest runs.
//   scalewatch_bench_query [--json] [--attempts N] [--tensors N] [--long N] [--runs N] [--rounds N] [--ingest N] [--folder DIR]
//   [--only TEXT]
// --ingest N: records a second beside the queries; 0 = none. --folder DIR: keeps the histories there and takes them from there.
// --only TEXT: of the questions those with TEXT in their name.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "scalewatch/v1/history.grpc.pb.h"
#include "tests/bench/query/store.h"
#include "tests/bench/support/load.h"
#include "tests/bench/support/server_process.h"

namespace {

using namespace scalewatch;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kLongTensors = 32;
constexpr std::uint32_t kLoadTensors = 1000;
constexpr std::uint32_t kLoadStreams = 4;

struct Arguments {
  bool json = false;
  std::uint32_t attempts = 10'000;  // of the wide run
  std::uint32_t tensors = 10'000;
  std::uint32_t lengthy = 1'000'000;  // attempts of the long run, which has 32 tensors
  std::uint32_t runs = 10'000;
  std::uint32_t rounds = 20;
  std::uint32_t ingest = 1'170'000;  // half of what the ingest benchmark gives
  std::string folder;
  std::string only;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  const std::map<std::string_view, std::uint32_t*> numbers{{"--attempts", &out.attempts}, {"--tensors", &out.tensors},
                                                           {"--long", &out.lengthy},      {"--runs", &out.runs},
                                                           {"--rounds", &out.rounds},     {"--ingest", &out.ingest}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      out.json = true;
    } else if (flag == "--folder" && i + 1 < argc) {
      out.folder = argv[++i];
    } else if (flag == "--only" && i + 1 < argc) {
      out.only = argv[++i];
    } else if (const auto found = numbers.find(flag); found != numbers.end() && i + 1 < argc) {
      const unsigned long value = std::strtoul(argv[++i], nullptr, 10);
      if ((value == 0 && flag != "--ingest") || value > 100'000'000) {
        throw std::invalid_argument(std::string(flag) + " needs a number from 1");
      }
      *found->second = static_cast<std::uint32_t>(value);
    } else {
      throw std::invalid_argument(
          "usage: scalewatch_bench_query [--json] [--attempts N] [--tensors N] [--long N] [--runs N] [--rounds N] "
          "[--ingest N] [--folder DIR] [--only TEXT]");
    }
  }
  return out;
}

constexpr const char* kAnswers = "grpcpp_sync_ser";  // threads of the server that answer questions, and do nothing else

// CPU time of this thread, which asks, and reads the answers: ingest's own threads are left out.
double own_thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class Report {
 public:
  Report(const Arguments& arguments) : arguments_(arguments) {}

  // What follows is asked of this server; `where` stands before each name.
  void at(const char* where, const bench::ServerProcess* server) {
    where_ = where;
    server_ = server;
  }
  // `ask` runs once unmeasured, for what a server keeps from request to request.
  void measure(const std::string& what, double goal_ms, const std::function<void()>& ask) {
    if (what.find(arguments_.only) == std::string::npos) return;
    ask();
    std::vector<double> times;
    const auto threads_before = server_->cpu_by_task(kAnswers);
    const double client_before = own_thread_ms();
    for (std::uint32_t i = 0; i < arguments_.rounds; ++i) {
      const auto start = Clock::now();
      ask();
      times.push_back(ms_since(start));
    }
    const double client_cpu = (own_thread_ms() - client_before) / arguments_.rounds;
    double cpu = 0;
    for (const auto& [task, seconds] : server_->cpu_by_task(kAnswers)) {
      const auto before = threads_before.find(task);
      cpu += (seconds - (before == threads_before.end() ? 0 : before->second)) * 1e3 / arguments_.rounds;
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    const double last = times[std::min(times.size() - 1, times.size() * 99 / 100)];
    if (arguments_.json) {
      std::printf(
          "%s\"%s: %s\": {\"p50_ms\": %.2f, \"p99_ms\": %.2f, \"server_cpu_ms\": %.2f, "
          "\"client_cpu_ms\": %.2f, \"goal_ms\": %.0f}",
          first_ ? "{" : ", ", where_, what.c_str(), median, last, cpu, client_cpu, goal_ms);
    } else {
      std::printf("%-7s %-54s p50 %7.1f ms  p99 %7.1f ms  CPU of server %6.1f of client %5.1f ms  goal %4.0f ms\n", where_,
                  what.c_str(), median, last, cpu, client_cpu, goal_ms);
    }
    std::fflush(stdout);
    first_ = false;
  }
  void tell(const char* what, double value, const char* unit) {
    if (arguments_.json) {
      std::printf("%s\"%s\": %.2f", first_ ? "{" : ", ", what, value);
    } else {
      std::printf("%-62s %.2f %s\n", what, value, unit);
    }
    std::fflush(stdout);
    first_ = false;
  }
  void end() const {
    if (arguments_.json) std::printf("}\n");
  }

 private:
  const Arguments& arguments_;
  const char* where_ = "";
  const bench::ServerProcess* server_ = nullptr;
  bool first_ = true;
};

// The histories, unless the folder has them.
void prepare(const Arguments& arguments, const std::filesystem::path& data, Report& report) {
  if (std::filesystem::exists(data / "history.db")) return;
  auto store = bench::open_store(data);
  const auto start = Clock::now();
  bench::fill(*store, {"wide", arguments.tensors, arguments.attempts});
  const double records = static_cast<double>(arguments.tensors) * arguments.attempts;
  report.tell("writing and compacting the wide run", ms_since(start) * 1e6 / records, "ns a record");
  store->compactor().run_now(true);
  store.reset();
  report.tell("the wide run on disk, fp16, all in",
              static_cast<double>(std::filesystem::file_size(data / "history.db")) / records, "bytes a record (goal 16)");
  store = bench::open_store(data);
  bench::fill(*store, {"long", kLongTensors, arguments.lengthy});
  bench::fill_runs(*store, arguments.runs);
}

class Questions {
 public:
  Questions(const Arguments& arguments, const bench::ServerProcess& server, Report& report)
      : arguments_(arguments), report_(report) {
    grpc::ChannelArguments settings;
    settings.SetMaxReceiveMessageSize(-1);
    settings.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 20);  // as the scalewatch command
    stub_ = v1::History::NewStub(grpc::CreateCustomChannel(server.address(), grpc::InsecureChannelCredentials(), settings));
  }

  void ask_all() {
    lengthy();
    snapshots();
    wide();
    runs();
  }

 private:
  // The answer lives until the next question: all are read into the same memory.
  template <class Request, class Response>
  const Response& ask(grpc::Status (v1::History::Stub::*call)(grpc::ClientContext*, const Request&, Response*),
                      const Request& request) {
    arena_.Reset();
    Response& response = *google::protobuf::Arena::CreateMessage<Response>(&arena_);
    grpc::ClientContext context;
    const auto status = (stub_.get()->*call)(&context, request, &response);
    if (!status.ok()) throw std::runtime_error(status.error_message());
    return response;
  }

  static void expect(int entries, int least) {
    if (entries < least) throw std::runtime_error("an answer of " + std::to_string(entries) + " entries");
  }

  void lengthy() {
    report_.measure("one tensor, all attempts of a long run, 1,000 points", 50, [&] {
      v1::GetTensorHistoryRequest request;
      request.set_run("long");
      request.set_tensor("layers." + std::to_string(random_() % kLongTensors) + ".weight");
      const auto& response = ask(&v1::History::Stub::GetTensorHistory, request);
      if (response.truncated()) throw std::runtime_error("the history was truncated");
      expect(response.points_size(), 1);
    });
    report_.measure("scaler, all attempts of a long run, 1,000 points", 50, [&] {
      v1::GetScalerHistoryRequest request;
      request.set_run("long");
      expect(ask(&v1::History::Stub::GetScalerHistory, request).points_size(), 1);
    });
  }

  void snapshot(std::uint64_t attempt, bool all) {
    v1::GetAttemptRequest request;
    request.set_run("wide");
    request.set_attempt(attempt);
    request.set_page_size(1000);
    int tensors = 0;
    do {
      const auto& response = ask(&v1::History::Stub::GetAttempt, request);
      tensors += response.tensors_size();
      request.set_page_token(response.next_page_token());
    } while (all && !request.page_token().empty());
    expect(tensors, all ? static_cast<int>(arguments_.tensors) : 1);
  }

  void snapshots() {
    const std::uint64_t old = std::max<std::uint32_t>(301, arguments_.attempts) - 300;
    report_.measure("snapshot, newest attempt, first page of 1,000 tensors", 20, [&] { snapshot(0, false); });
    report_.measure("snapshot, newest attempt, all pages", 20, [&] { snapshot(0, true); });
    report_.measure("snapshot, an older attempt, first page", 100, [&] { snapshot(1 + random_() % old, false); });
    report_.measure("snapshot, an older attempt, all pages", 100, [&] { snapshot(1 + random_() % old, true); });
  }

  void wide() {
    for (const auto by : {v1::TopTensorsRequest::BY_HEADROOM, v1::TopTensorsRequest::BY_NORM,
                          v1::TopTensorsRequest::BY_UNDERFLOW, v1::TopTensorsRequest::BY_NON_FINITE}) {
      report_.measure("top 20 of the wide run, " + v1::TopTensorsRequest::By_Name(by), 100, [&] {
        v1::TopTensorsRequest request;
        request.set_run("wide");
        request.set_by(by);
        request.mutable_range()->set_first(1);
        request.mutable_range()->set_last(arguments_.attempts);
        const auto& response = ask(&v1::History::Stub::TopTensors, request);
        if (response.range().first() != 1) throw std::runtime_error("not all attempts were read");
        expect(response.tensors_size(), 20);
      });
    }
    for (const auto by : {v1::TopTensorsRequest::BY_HEADROOM, v1::TopTensorsRequest::BY_UNDERFLOW}) {
      report_.measure("heat map, 200 tensors x 500 columns, " + v1::TopTensorsRequest::By_Name(by), 200, [&] {
        v1::GetHeatMapRequest request;
        request.set_run("wide");
        request.set_by(by);
        request.set_max_tensors(200);
        request.set_max_columns(500);
        const auto& response = ask(&v1::History::Stub::GetHeatMap, request);
        if (response.truncated()) throw std::runtime_error("the heat map was truncated");
        expect(response.rows_size(), 1);
      });
    }
  }

  void list(bool all) {
    v1::ListRunsRequest request;
    request.set_page_size(1000);
    int runs = 0;
    do {
      const auto& response = ask(&v1::History::Stub::ListRuns, request);
      runs += response.runs_size();
      request.set_page_token(response.next_page_token());
    } while (all && !request.page_token().empty());
    expect(runs, all ? static_cast<int>(arguments_.runs) : 1);
  }

  void runs() {
    report_.measure("runs listed, first page of 1,000", 20, [&] { list(false); });
    report_.measure("runs listed, all pages", 20, [&] { list(true); });
  }

  const Arguments& arguments_;
  Report& report_;
  std::unique_ptr<v1::History::Stub> stub_;
  std::vector<char> memory_ = std::vector<char>(8 << 20);
  google::protobuf::Arena arena_{memory_.data(), memory_.size()};
  std::minstd_rand random_{5};
};

void beside_ingest(const Arguments& arguments, const bench::ServerProcess& server, Report& report, Questions& questions) {
  bench::LoadOptions options;
  options.server = server.address();
  options.streams = kLoadStreams;
  options.tensors = kLoadTensors;
  options.attempts_per_s = std::max(1U, arguments.ingest / (kLoadStreams * kLoadTensors));
  options.run = "beside-" + std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
  bench::Load load(options);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const auto start = Clock::now();
  const std::uint64_t before = load.durable_reports();
  report.at("ingest", &server);
  questions.ask_all();
  report.tell("ingest meanwhile, records a second",
              static_cast<double>(load.durable_reports() - before) * kLoadTensors * 1e3 / ms_since(start), "durable");
  load.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    Report report(arguments);
    const bench::Folder folder(arguments.folder);
    prepare(arguments, folder.path() / "data", report);
    bench::ServerProcess server("collection:\n  stats_leader: false\n", folder.path());
    Questions questions(arguments, server, report);
    report.at("rest", &server);
    questions.ask_all();
    if (arguments.ingest > 0) beside_ingest(arguments, server, report, questions);
    report.end();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scalewatch_bench_query: %s\n", error.what());
    return 1;
  }
}
