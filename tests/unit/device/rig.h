// A GPU of the fake driver, as tests of cuda/device see it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "cuda/cpu/measure.h"
#include "cuda/device/measurer.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace scalewatch::cuda {

// Numbers in device memory.
class OnGpu {
 public:
  template <class T>
  OnGpu(int device, const std::vector<T>& values)
      : bytes_(values.size() * sizeof(T)), numel_(values.size()), address_(fake_cuda::make_memory(device, bytes_)) {
    if (bytes_ != 0) std::memcpy(reinterpret_cast<void*>(address_), values.data(), bytes_);
  }
  ~OnGpu() { fake_cuda::free_memory(address_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] std::uint64_t numel() const { return numel_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(address_);
  }

 private:
  std::size_t bytes_;
  std::size_t numel_;
  std::uint64_t address_;
};

inline device::TensorDesc describe(const OnGpu& data, DType dtype, DType target = DType::kFp16, std::uint64_t scale_at = 0) {
  const auto type = static_cast<device::U8>(dtype);
  return {data.address(),
          data.numel(),
          scale_at,
          1,
          0,
          type,
          static_cast<device::U8>(target),
          device::chunk_shift(type, data.numel()),
          0};
}

// What the CPU kernel makes of the same memory. Sums are added in another order, so they are compared apart.
inline void expect_same(const Record& got, const OnGpu& data, DType dtype, DType target = DType::kFp16, double scale = 1) {
  const Record want = measure(data.as<void>(), dtype, data.numel(), target, scale);
  EXPECT_EQ(got.numel, want.numel);
  EXPECT_EQ(got.nan, want.nan);
  EXPECT_EQ(got.pos_inf, want.pos_inf);
  EXPECT_EQ(got.neg_inf, want.neg_inf);
  EXPECT_EQ(got.zero, want.zero);
  EXPECT_EQ(got.subnormal, want.subnormal);
  EXPECT_EQ(got.flushed, want.flushed);
  EXPECT_EQ(got.over, want.over);
  const auto same = [](float a, float b) { return a == b || (a != a && b != b); };
  EXPECT_TRUE(same(got.min, want.min)) << got.min << ' ' << want.min;
  EXPECT_TRUE(same(got.max, want.max)) << got.max << ' ' << want.max;
  EXPECT_TRUE(same(got.absmin_nonzero, want.absmin_nonzero));
  EXPECT_NEAR(got.sum, want.sum, 1e-5 * (1 + std::abs(want.sum)));
  EXPECT_NEAR(got.sum_sq, want.sum_sq, 1e-5 * (1 + want.sum_sq));
}

// The fake driver as it is at first, and opened.
class Rig : public testing::Test {
 protected:
  Rig() {
    fake_cuda::reset();
    driver_ = open_driver("libcuda.so.1");
  }
  ~Rig() override {
    EXPECT_EQ(fake_cuda::misuse(), std::vector<std::string>());
    fake_cuda::make_current(-1);
    fake_cuda::reset();
  }

  static std::vector<std::string> names(const std::vector<fake_cuda::Call>& calls) {
    std::vector<std::string> made;
    made.reserve(calls.size());
    for (const fake_cuda::Call& call : calls) made.push_back(call.name);
    return made;
  }
  static void expect_no_waiting() {
    static const std::set<std::string> kWaits = {"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize",
                                                 "cuMemcpyDtoH_v2",  "cuMemcpyHtoD_v2",     "cuMemsetD8_v2"};
    for (const fake_cuda::Call& call : fake_cuda::calls()) EXPECT_FALSE(kWaits.contains(call.name)) << call.name;
  }
  static Stream stream(int device = 0) { return static_cast<Stream>(fake_cuda::make_stream(device)); }

  Driver driver_;
};

}  // namespace scalewatch::cuda
