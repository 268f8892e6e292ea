// What cub::DeviceReduce takes for the same bytes: built where nvcc is, see tests/gpu/run. Prints rows as bench.cc does.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdio>
#include <cub/cub.cuh>
#include <vector>

template <class T>
void reduce(const char* name) {
  constexpr size_t kBytes = size_t{1} << 30;
  constexpr int kRepetitions = 20;
  const int count = static_cast<int>(kBytes / sizeof(T));
  T* data = nullptr;
  T* sum = nullptr;
  void* scratch = nullptr;
  size_t scratch_bytes = 0;
  cudaMalloc(&data, kBytes);
  cudaMalloc(&sum, sizeof(T));
  cudaMemset(data, 0, kBytes);
  cub::DeviceReduce::Sum(nullptr, scratch_bytes, data, sum, count);
  cudaMalloc(&scratch, scratch_bytes);
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> times;
  for (int i = -2; i < kRepetitions; ++i) {
    float ms = 0;
    cudaEventRecord(begin);
    cub::DeviceReduce::Sum(scratch, scratch_bytes, data, sum, count);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&ms, begin, end);
    if (i >= 0) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  if (cudaGetLastError() != cudaSuccess) {
    std::fprintf(stderr, "cub::DeviceReduce failed\n");
    std::exit(1);
  }
  std::printf("cub::DeviceReduce 1 GiB %s time\t%.4g\tus\t\t\n", name, times[times.size() / 2] * 1000);
  cudaFree(data);
  cudaFree(sum);
  cudaFree(scratch);
}

int main() {
  reduce<float>("fp32");
  reduce<__half>("fp16");
  reduce<__nv_bfloat16>("bf16");
}
