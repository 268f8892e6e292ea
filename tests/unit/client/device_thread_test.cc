// Nothing on the trainer's thread with GPUs either: what the driver does inside its calls is the driver's own.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/unit/client/device_trainer.h"
#include "tests/unit/client/fake_server.h"
#include "tests/unit/client/trainer_guard.h"

extern "C" void fake_cuda_inside(bool inside) {
  inside ? scalewatch::client_test::TrainerGuard::pause() : scalewatch::client_test::TrainerGuard::resume();
}

namespace scalewatch::client_test {
namespace {

// The trainer's own work is not watched.
void enqueue_unwatched(void* stream, std::function<void()> work) {
  TrainerGuard::pause();
  fake_cuda::enqueue(stream, std::move(work));
  TrainerGuard::resume();
}

void train_guarded(DeviceTrainer& trainer, const char* what) {
  for (int i = 0; i < 200; ++i) {
    if (!trainer.attempt()) ADD_FAILURE() << what;
  }
}

TEST(DeviceThread, AllocatesNothingAndMakesNoSystemCall) {
  fake_cuda::set_automatic(true);
  FakeServer server;
  DeviceTrainer trainer(server.address(), 5);
  trainer.update_on = enqueue_unwatched;
  for (int i = 0; i < 20; ++i) trainer.attempt();
  {
    const TrainerGuard guard;
    train_guarded(trainer, "measuring");
    EXPECT_EQ(guard.allocations(), 0U);
    EXPECT_EQ(guard.locks(), 0U);
    EXPECT_EQ(guard.system_calls(), 0U) << guard.last_system_call();
  }
  fake_cuda::fail_all(700);
  for (int i = 0; i < 3; ++i) trainer.attempt();
  {
    const TrainerGuard guard;
    train_guarded(trainer, "after an error of the GPU");
    EXPECT_EQ(guard.allocations(), 0U);
    EXPECT_EQ(guard.locks(), 0U);
    EXPECT_EQ(guard.system_calls(), 0U) << guard.last_system_call();
  }
  EXPECT_GT(trainer.monitor().stats().device_lost_quiet, 0U);
}

}  // namespace
}  // namespace scalewatch::client_test
