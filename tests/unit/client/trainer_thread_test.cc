// Nothing on the trainer's thread: not one allocation and not one system call while training, whatever the server does.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "scalewatch/loss_scaler.hpp"
#include "scalewatch/scalewatch.hpp"
#include "tests/unit/client/fake_server.h"
#include "tests/unit/client/trainer_guard.h"

namespace scalewatch::client_test {
namespace {

constexpr int kTensors = 200;

TEST(TrainerGuard, SeesAllocationsLocksAndSystemCalls) {
  {
    const TrainerGuard guard;
    const std::unique_ptr<int> made(new int(1));
    EXPECT_GT(guard.allocations(), 0U);
  }
  {
    const TrainerGuard guard;
    const long parent = syscall(SYS_getppid);
    EXPECT_EQ(guard.system_calls(), 1U);
    EXPECT_EQ(guard.last_system_call(), SYS_getppid);
    EXPECT_EQ(parent, getppid());
  }
  {
    std::mutex free;
    const TrainerGuard guard;
    const std::lock_guard lock(free);
    EXPECT_EQ(guard.locks(), 1U);
  }
  std::timed_mutex held;
  held.lock();
  std::thread([&held] {
    const TrainerGuard guard;
    EXPECT_FALSE(held.try_lock_for(std::chrono::milliseconds(1)));
    EXPECT_EQ(guard.last_system_call(), SYS_futex);
  }).join();
  held.unlock();
}

// A trainer that does all that a trainer may do in an attempt.
class Trainer {
 public:
  explicit Trainer(const std::string& server, std::uint64_t buffer_bytes = 0, const std::string& spool_dir = {}) {
    MonitorOptions options;
    options.run = "run";
    options.server = server;
    options.buffer_bytes = buffer_bytes;
    options.spool_dir = spool_dir;
    options.spool_keep_free_bytes = 1;
    options.histogram_every = 5;
    monitor_ = std::make_unique<Monitor>(options);
    SamplingOptions seldom;
    seldom.include = "b*";
    seldom.report_every = 3;
    monitor_->add_sampling(seldom);
    scaler_ = monitor_->add_scaler("default", "pytorch");
    monitor_->add_optimizer({});
    for (int i = 0; i < kTensors; ++i) {
      tensors_.push_back(monitor_->add_tensor(
          {(i % 2 == 0 ? "a" : "b") + std::to_string(i), SCALEWATCH_GRADIENT, SCALEWATCH_FP32, kNumel, 0, "", "", ""}));
    }
  }

  bool attempt(bool bad = false) {
    Monitor& monitor = *monitor_;
    bool ok = monitor.begin_attempt(++step_);
    data_[7] = bad ? std::numeric_limits<float>::infinity() : 1;
    for (const std::uint32_t tensor : tensors_) ok = monitor.observe(tensor, data_.data(), data_.size(), 1024) && ok;
    ok = monitor.wants(tensors_[0]) && ok;
    const std::uint64_t sizes[2] = {4, 4};
    const std::int64_t strides[2] = {1, 8};
    ok = scalewatch_observe_strided(monitor.handle(), tensors_[0], data_.data(), 2, sizes, strides, 1024, 0) == 0 && ok;
    ok = monitor.observe_scaler(scaler_, 1024, bad ? 512 : 1024, 3, 1) && ok;
    ok = monitor.observe_optimizer(scaler_, 0, bad ? 1 : 0, bad ? 1 : 0, bad ? SCALEWATCH_SKIPPED : SCALEWATCH_APPLIED) && ok;
    ok = monitor.set_loss(0.5) && monitor.set_lr(0.1) && monitor.set_grad_norm(2, true, true) && ok;
    ok = monitor.set_input_non_finite(false) && monitor.set_phase(SCALEWATCH_TRAIN) && ok;
    if (bad) ok = monitor.misuse("update_missing", "update() was not called", false) && ok;
    return monitor.end_attempt() && ok;
  }

  // Attempts for so long, under guard; what the client's thread does meanwhile is its own.
  void train_guarded(std::chrono::milliseconds time, const std::string& what) {
    for (int i = 0; i < 3; ++i) attempt(i == 1);  // warm
    const auto end = std::chrono::steady_clock::now() + time;
    std::uint64_t count = 0;
    const TrainerGuard guard;
    while (std::chrono::steady_clock::now() < end) attempt(++count % 50 == 0);
    EXPECT_EQ(guard.allocations(), 0U) << what;
    EXPECT_EQ(guard.locks(), 0U) << what;
    EXPECT_EQ(guard.system_calls(), 0U) << what << ": system call " << guard.last_system_call();
    EXPECT_GT(count, 0U);
  }

  [[nodiscard]] Monitor& monitor() { return *monitor_; }

 private:
  static constexpr std::size_t kNumel = 64;
  std::unique_ptr<Monitor> monitor_;
  std::uint32_t scaler_ = 0;
  std::vector<std::uint32_t> tensors_;
  std::vector<float> data_ = std::vector<float>(kNumel, 1.0F);
  std::int64_t step_ = 0;
};

constexpr std::chrono::milliseconds kWhile{300};

TEST(TrainerThread, WaitsForNothingWhileTheServerTakesEverything) {
  FakeServer server;
  Trainer trainer(server.address());
  trainer.train_guarded(kWhile, "live server");
  EXPECT_TRUE(trainer.monitor().close(20'000));
}

TEST(TrainerThread, WaitsForNothingWithNoServer) {
  Trainer trainer("127.0.0.1:1");
  trainer.train_guarded(kWhile, "no server");
}

TEST(TrainerThread, WaitsForNothingWhenBufferAndQueueAreFull) {
  Trainer trainer("127.0.0.1:1", 64 << 10);
  trainer.train_guarded(kWhile, "full buffer");
  const auto stats = trainer.monitor().stats();
  EXPECT_GT(stats.reports_thinned + stats.dropped_buffer_full + stats.dropped_queue_full, 0U);
  EXPECT_LE(stats.buffered_bytes, 64U << 10);
}

TEST(TrainerThread, WaitsForNothingWhileReportsGoToDisk) {
  std::string directory = (std::filesystem::temp_directory_path() / "scalewatch-spool-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  {
    Trainer trainer("127.0.0.1:1", 4 << 20, directory);
    trainer.train_guarded(kWhile, "spooling");
    for (int i = 0; i < 1000 && trainer.monitor().stats().spooled_bytes == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_GT(trainer.monitor().stats().spooled_bytes, 0U);
    trainer.monitor().close(0);
  }
  std::filesystem::remove_all(directory);
}

TEST(TrainerThread, WaitsForNothingWhenTheServerIsSilent) {
  FakeServer::Behaviour silent;
  silent.greet = false;
  FakeServer server(silent);
  Trainer trainer(server.address());
  trainer.train_guarded(kWhile, "server that never answers");
  trainer.monitor().close(0);
}

TEST(TrainerThread, WaitsForNothingWhenTheServerNeverAcks) {
  FakeServer::Behaviour silent;
  silent.ack = false;
  FakeServer server(silent);
  Trainer trainer(server.address(), 256 << 10);
  trainer.train_guarded(kWhile, "server that never acks");
  trainer.monitor().close(0);
}

TEST(TrainerThread, WaitsForNothingOutOfQuota) {
  FakeServer::Behaviour full;
  full.refuse = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many streams");
  FakeServer server(full);
  Trainer trainer(server.address());
  trainer.train_guarded(kWhile, "out of quota");
}

TEST(TrainerThread, WaitsForNothingWhenFenced) {
  FakeServer::Behaviour fencing;
  fencing.hello_fault = v1::FAULT_CAUSE_FENCED;
  FakeServer server(fencing);
  Trainer trainer(server.address());
  trainer.attempt();
  EXPECT_EQ(scalewatch_wait_durable(trainer.monitor().handle(), 20'000), SCALEWATCH_STOPPED);
  trainer.train_guarded(kWhile, "fenced");
}

TEST(TrainerThread, WaitsForNothingWhileTheServerDiesAndReturns) {
  auto server = std::make_unique<FakeServer>();
  const int port = server->port();
  Trainer trainer(server->address());
  trainer.attempt();
  std::thread operations([&] {
    std::this_thread::sleep_for(kWhile / 3);
    server.reset();
    std::this_thread::sleep_for(kWhile / 3);
    server = std::make_unique<FakeServer>(FakeServer::Behaviour{}, port);
  });
  trainer.train_guarded(kWhile * 3, "server that dies and returns");
  operations.join();
  EXPECT_TRUE(trainer.monitor().close(60'000));
}

TEST(TrainerThread, WaitsForNothingWhileDirectivesCome) {
  FakeServer server;
  Trainer trainer(server.address());
  std::thread operations([&] {
    for (std::uint32_t i = 0; i < 30; ++i) {
      v1::Directive directive;
      directive.set_id(std::to_string(i));
      directive.set_every(1 + i % 3);
      directive.set_send_ring(i % 5 == 0);
      server.say(directive);
      std::this_thread::sleep_for(kWhile / 30);
    }
  });
  trainer.train_guarded(kWhile, "directives");
  operations.join();
  EXPECT_TRUE(trainer.monitor().close(20'000));
}

TEST(TrainerThread, LossScalerAddsNothing) {
  FakeServer server;
  MonitorOptions options;
  options.run = "run";
  options.server = server.address();
  Monitor monitor(options);
  LossScaler scaler({}, &monitor);
  const auto id = scaler.add_optimizer();
  std::vector<float> gradient(64, 1.0F);
  const std::vector<GradientView> views = {{gradient.data(), gradient.size()}};
  const auto attempt = [&](bool bad) {
    monitor.begin_attempt(1);
    gradient[0] = bad ? std::numeric_limits<float>::infinity() : 1;
    scaler.scale(1.0F);
    scaler.step(id, views, [] {});
    scaler.update();
    monitor.end_attempt();
  };
  for (int i = 0; i < 3; ++i) attempt(i == 1);
  {
    const TrainerGuard guard;
    for (int i = 0; i < 200; ++i) attempt(i % 20 == 0);
    EXPECT_EQ(guard.allocations(), 0U);
    EXPECT_EQ(guard.locks(), 0U);
    EXPECT_EQ(guard.system_calls(), 0U) << guard.last_system_call();
  }
  EXPECT_TRUE(monitor.close(20'000));
}

}  // namespace
}  // namespace scalewatch::client_test
