#include "tests/bench/support/capture.h"

#include <grpcpp/grpcpp.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

#include "scalewatch/v1/history.grpc.pb.h"
#include "tests/bench/support/server_process.h"

namespace scalewatch::bench {
namespace {

constexpr const char* kConfig = "collection: {stats_leader: false}\n";

std::string name_of(std::size_t run) {
  return "demo-" + std::to_string(run + 1);
}

// The scale stays where it began, low enough that nothing overflows: each attempt of a run is then like any other.
int train(const std::string& server, std::size_t run, std::size_t attempts) {
  const auto program = std::filesystem::canonical("/proc/self/exe").parent_path() / "scalewatch-demo";
  const std::string command = program.string() + " healthy --progress 0 --init-scale 8192 --growth-interval 1000000 --steps " +
                              std::to_string(attempts) + " --seed " + std::to_string(run + 1) + " --run " + name_of(run) +
                              " --server " + server + " >/dev/null 2>&1";
  return std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): the environment stays as it is
}

CapturedRecord record_of(const v1::Record& told) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  CapturedRecord captured{};
  captured.scale = told.measured_under_scale();
  scalewatch_record& record = captured.record;
  record.size = sizeof record;
  record.numel = told.numel();
  record.nan = told.nan();
  record.pos_inf = told.pos_inf();
  record.neg_inf = told.neg_inf();
  record.zero = told.zero();
  record.subnormal = told.subnormal();
  record.flushed = told.flushed();
  record.over = told.over();
  record.sum = told.sum();
  record.sum_sq = told.sum_sq();
  record.min = told.has_min() ? told.min() : kNone;
  record.max = told.has_max() ? told.max() : kNone;
  record.absmin_nonzero = told.has_absmin_nonzero() ? told.absmin_nonzero() : kNone;
  return captured;
}

class Asking {
 public:
  explicit Asking(const std::string& server)
      : stub_(v1::History::NewStub(grpc::CreateChannel(server, grpc::InsecureChannelCredentials()))) {}

  v1::GetAttemptResponse attempt(std::size_t run, std::uint64_t number) const {
    v1::GetAttemptRequest request;
    request.set_run(name_of(run));
    request.set_segment(1);
    request.set_attempt(number);
    request.set_page_size(1000);
    v1::GetAttemptResponse response;
    grpc::ClientContext context;
    const auto status = stub_->GetAttempt(&context, request, &response);
    if (!status.ok()) throw std::runtime_error(name_of(run) + ": " + status.error_message());
    return response;
  }
  [[nodiscard]] bool has(std::size_t run, std::uint64_t number) const {
    try {
      return attempt(run, number).tensors_size() > 0;
    } catch (const std::runtime_error&) {
      return false;
    }
  }

 private:
  std::unique_ptr<v1::History::Stub> stub_;
};

CapturedRun read(const Asking& server, std::size_t run, std::size_t attempts) {
  CapturedRun captured;
  for (std::size_t number = 1; number <= attempts; ++number) {
    const auto attempt = server.attempt(run, number);
    if (captured.tensors.empty()) {
      for (const auto& tensor : attempt.tensors()) {
        const auto& info = tensor.info();
        captured.tensors.push_back({info.name(), static_cast<scalewatch_role>(info.role()),
                                    static_cast<scalewatch_dtype>(info.dtype()), info.numel(), info.forward_index()});
      }
    }
    if (static_cast<std::size_t>(attempt.tensors_size()) != captured.tensors.size()) {
      throw std::runtime_error(name_of(run) + ": attempt " + std::to_string(number) + " has other tensors than the first");
    }
    auto& records = captured.attempts.emplace_back();
    for (const auto& tensor : attempt.tensors()) records.push_back(record_of(tensor.record()));
  }
  return captured;
}

}  // namespace

std::vector<CapturedRun> capture_demo(const std::filesystem::path& folder, std::size_t runs, std::size_t attempts) {
  std::filesystem::create_directories(folder);
  ServerProcess server(kConfig, folder);
  const Asking asking(server.address());
  std::vector<int> ended(runs, 0);
  std::vector<std::thread> trainers;
  for (std::size_t run = 0; run < runs; ++run) {
    if (asking.has(run, attempts)) continue;
    trainers.emplace_back([&, run] { ended[run] = train(server.address(), run, attempts); });
  }
  for (auto& trainer : trainers) trainer.join();
  std::vector<CapturedRun> captured;
  for (std::size_t run = 0; run < runs; ++run) {
    if (ended[run] != 0) throw std::runtime_error("scalewatch-demo failed");
    captured.push_back(read(asking, run, attempts));
  }
  server.stop();
  return captured;
}

}  // namespace scalewatch::bench
