// Opening the driver: absent, incomplete, too old, refusing, without a GPU.
#include <string>

#include "tests/unit/device/rig.h"

namespace scalewatch::cuda {
namespace {

class OpenDriver : public Rig {};

TEST_F(OpenDriver, SaysThatThereIsNone) {
  const Driver driver = open_driver("libscalewatch-has-no-such-library.so.1");
  EXPECT_EQ(driver.cause, Cause::kNoDriver);
  EXPECT_NE(std::string(driver.detail).find("libscalewatch-has-no-such-library.so.1"), std::string::npos) << driver.detail;
}

TEST_F(OpenDriver, NamesTheFunctionThatIsMissing) {
  const Driver nothing = open_driver(SCALEWATCH_NO_CUDA);
  EXPECT_EQ(nothing.cause, Cause::kNoDriver);
  EXPECT_NE(std::string(nothing.detail).find("has no cuInit"), std::string::npos) << nothing.detail;
  const Driver half = open_driver(SCALEWATCH_HALF_CUDA);
  EXPECT_EQ(half.cause, Cause::kNoDriver);
  EXPECT_NE(std::string(half.detail).find("has no cuDeviceGetCount"), std::string::npos) << half.detail;
}

TEST_F(OpenDriver, RefusesOneThatIsTooOld) {
  fake_cuda::set_driver_version(11080);
  const Driver driver = open_driver("libcuda.so.1");
  EXPECT_EQ(driver.cause, Cause::kDriverTooOld);
  EXPECT_NE(std::string(driver.detail).find("CUDA 11.8"), std::string::npos) << driver.detail;
  fake_cuda::set_driver_version(12000);
  EXPECT_EQ(open_driver("libcuda.so.1").cause, Cause::kNone);
}

TEST_F(OpenDriver, SaysWhyItDoesNotStart) {
  fake_cuda::set_init_status(999);
  const Driver failed = open_driver("libcuda.so.1");
  EXPECT_EQ(failed.cause, Cause::kInitFailed);
  EXPECT_EQ(std::string(failed.detail), "error 999");
  fake_cuda::set_init_status(0);
  fake_cuda::set_devices({});
  const Driver none = open_driver("libcuda.so.1");
  EXPECT_EQ(none.cause, Cause::kNoDevice);
  EXPECT_EQ(std::string(none.detail), "CUDA_ERROR_NO_DEVICE");
}

TEST_F(OpenDriver, TakesMachineCodeOfTheSameMajorArchitecture) {
  fake_cuda::set_devices({{7, 0}, {8, 7}, {12, 1}, {6, 1}, {11, 0}});
  for (int i = 0; i < 3; ++i) {
    const Measurer measurer(driver_, i);
    EXPECT_EQ(measurer.device().cause(), Cause::kNone) << i;
  }
  for (int i = 3; i < 5; ++i) {
    const Measurer measurer(driver_, i);
    EXPECT_EQ(measurer.device().cause(), Cause::kUnknownArchitecture) << i;
    char detail[256] = "";
    measurer.device().describe_fault(detail, sizeof detail);
    EXPECT_NE(std::string(detail).find(i == 3 ? "6.1" : "11.0"), std::string::npos) << detail;
  }
  const Measurer beyond(driver_, 5);
  EXPECT_EQ(beyond.device().cause(), Cause::kNoDevice);
  EXPECT_EQ(fake_cuda::allocations(), 0U);
}

}  // namespace
}  // namespace scalewatch::cuda
