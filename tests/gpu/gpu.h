// A GPU as a trainer uses it, for programs that need no CUDA toolkit: memory, streams, waiting, timing, graphs.
//
// Source of the declarations: NVIDIA's CUDA Driver API reference. Every error ends the program with what failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/device/driver.h"

namespace scalewatch::gpu {

// Exit status of a program that finds no GPU to work with; ctest counts it as skipped.
inline constexpr int kNoGpu = 77;

class Gpu {
 public:
  // Device 0 and its primary context, current on this thread. Ends the program with kNoGpu, and says why, when there is none.
  Gpu();

  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] cuda::Stream stream() const { return stream_; }
  [[nodiscard]] std::uint64_t allocate(std::size_t bytes);
  void free(std::uint64_t address);
  void upload(std::uint64_t to, const void* from, std::size_t bytes);
  void download(void* to, std::uint64_t from, std::size_t bytes);
  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes);  // on the device, asynchronously
  void wait();
  template <class T>
  [[nodiscard]] std::uint64_t put(const std::vector<T>& values) {
    const std::uint64_t address = allocate(values.size() * sizeof(T) + 1);
    upload(address, values.data(), values.size() * sizeof(T));
    return address;
  }

  // Median GPU time in microseconds of some repetitions of what work() puts on the stream.
  template <class Work>
  [[nodiscard]] double median_us(int repetitions, const Work& work) {
    std::vector<double> times;
    for (int i = -2; i < repetitions; ++i) {  // two to warm up
      begin();
      work();
      const double us = end_us();
      if (i >= 0) times.push_back(us);
    }
    return median(times);
  }

  void begin_capture();
  [[nodiscard]] void* end_capture();  // a graph that can be replayed
  void replay(void* graph);

 private:
  void begin();
  double end_us();
  static double median(std::vector<double>& values);

  char name_[128] = "";
  cuda::Stream stream_ = nullptr;
  cuda::Event begin_ = nullptr, end_ = nullptr;
};

}  // namespace scalewatch::gpu
