// The kernels on a GPU: scalewatch_gpu_suite correctness [--small] | bench. Exit status 77: there is no GPU; it says why.
#include <cstdio>
#include <string_view>

#include "tests/gpu/bench.h"
#include "tests/gpu/correctness.h"

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const bool small = argc > 2 && std::string_view(argv[2]) == "--small";
  if (what == "starts") return 0;  // so much can be told on any machine
  if (what != "correctness" && what != "bench" && what != "name") {
    std::fprintf(stderr, "usage: %s starts | name | correctness [--small] | bench\n", argv[0]);
    return 2;
  }
  scalewatch::gpu::Gpu gpu;
  if (what == "name") std::printf("%s\n", gpu.name());
  if (what == "bench") scalewatch::gpu::print_benchmarks(gpu);
  return what == "correctness" && scalewatch::gpu::check_correctness(gpu, small) != 0 ? 1 : 0;
}
