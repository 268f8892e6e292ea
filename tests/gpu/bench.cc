#include "tests/gpu/bench.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "cuda/device/measurer.h"
#include "cuda/record/format.h"

namespace scalewatch::gpu {
namespace {

constexpr int kRepetitions = 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

void row(const std::string& name, double value, const char* unit, const char* goal, const char* meaning) {
  std::printf("%s\t%.4g\t%s\t%s\t%s\n", name.c_str(), value, unit, goal, meaning);
}

// Gradients of ResNet-50 (He et al. 2015, table 1), in elements: convolutions, batch norms, the last layer.
std::vector<std::uint64_t> resnet50() {
  std::vector<std::uint64_t> sizes;
  const auto convolution = [&](std::uint64_t in, std::uint64_t out, std::uint64_t side) {
    for (const std::uint64_t size : {in * out * side * side, out, out}) sizes.push_back(size);
  };
  convolution(3, 64, 7);
  std::uint64_t in = 64;
  const std::pair<int, std::uint64_t> stages[] = {{3, 64}, {4, 128}, {6, 256}, {3, 512}};
  for (const auto& [blocks, width] : stages) {
    for (int i = 0; i < blocks; ++i) {
      convolution(in, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (i == 0) convolution(in, 4 * width, 1);
      in = 4 * width;
    }
  }
  for (const std::uint64_t size : {2048 * 1000, 1000}) sizes.push_back(size);
  return sizes;
}

// Gradients of a transformer of 6.7 billion parameters: 32 layers of width 4,096, gated feed-forward of 11,008, 32,000 words.
std::vector<std::uint64_t> transformer7b() {
  std::vector<std::uint64_t> sizes = {32'000 * 4096ULL, 32'000 * 4096ULL, 4096};
  for (int layer = 0; layer < 32; ++layer) {
    sizes.insert(sizes.end(), 4, 4096 * 4096ULL);
    sizes.insert(sizes.end(), 3, 4096 * 11'008ULL);
    sizes.insert(sizes.end(), 2, 4096);
  }
  return sizes;
}

// One launch for tensors of these sizes, all in one memory, again and again.
class Pass {
 public:
  Pass(Gpu& gpu, cuda::Measurer& measurer, std::uint64_t memory, DType dtype, const std::vector<std::uint64_t>& sizes,
       bool histograms = false)
      : measurer_(measurer) {
    const auto type = static_cast<device::U8>(dtype);
    for (const std::uint64_t numel : sizes) {
      tensors_.push_back({memory + bytes_, numel, 0, 1, 0, type, type, device::chunk_shift(type, numel), 0});
      bytes_ += (numel * element_size(dtype) + 255) / 256 * 256;
    }
    if (histograms) exponents_ = tensors_;
    batch_ = measurer.open(gpu.stream(), tensors_.size(), cuda::Work{tensors_, {}, {}, exponents_}.packet_bytes(),
                           exponents_.size());
  }
  void operator()() const {
    batch_->record_tags.clear();
    batch_->packet_used = 0;  // the same again: nothing is uploaded
    measurer_.launch(*batch_, {tensors_, {}, {}, exponents_});
  }
  [[nodiscard]] double bytes() const { return static_cast<double>(bytes_); }

 private:
  cuda::Measurer& measurer_;
  std::vector<device::TensorDesc> tensors_, exponents_;
  std::uint64_t bytes_ = 0;
  cuda::Batch* batch_ = nullptr;
};

constexpr std::pair<DType, const char*> kTypes[] = {{DType::kFp32, "fp32"}, {DType::kFp16, "fp16"}, {DType::kBf16, "bf16"}};

}  // namespace

void print_benchmarks(Gpu& gpu) {
  cuda::Measurer measurer(cuda::driver(), 0);
  const std::uint64_t from = gpu.allocate(kGiB);
  const std::uint64_t to = gpu.allocate(kGiB);
  // Bits of ordinary values: 1 in fp32 and bf16 alike, a normal number in fp16.
  const std::vector<std::uint32_t> ones(kGiB / 4, 0x3F803F80U);
  gpu.upload(from, ones.data(), kGiB);
  const double copy_us = gpu.median_us(kRepetitions, [&] { gpu.copy(to, from, kGiB); });
  const double copy_bandwidth = 2 * static_cast<double>(kGiB) / copy_us;  // bytes a microsecond, read and written
  row("copy 1 GiB", copy_bandwidth * 1e-3, "GB/s", "", "device to device, bytes read and written");
  for (const auto& [dtype, name] : kTypes) {
    const Pass pass(gpu, measurer, from, dtype, {kGiB / element_size(dtype)});
    const double us = gpu.median_us(kRepetitions, pass);
    row(std::string("fused pass 1 GiB ") + name, pass.bytes() / us / copy_bandwidth, "of the copy's bandwidth", ">= 0.85", "");
    row(std::string("fused pass 1 GiB ") + name + " time", us, "us", "", "");
    const Pass with_histogram(gpu, measurer, from, dtype, {kGiB / element_size(dtype)}, true);
    row(std::string("the same with its exponent histogram ") + name + " time", gpu.median_us(kRepetitions, with_histogram),
        "us", "", "at one attempt in 100");
  }
  gpu.free(to);
  gpu.free(from);
  const auto mix = [&](const char* name, DType dtype, const std::vector<std::uint64_t>& sizes) {
    std::uint64_t bytes = 0;
    for (const std::uint64_t numel : sizes) bytes += (numel * element_size(dtype) + 255) / 256 * 256;
    const std::uint64_t memory = gpu.allocate(bytes);
    for (std::uint64_t done = 0; done < bytes; done += kGiB)
      gpu.upload(memory + done, ones.data(), std::min(kGiB, bytes - done));
    const Pass pass(gpu, measurer, memory, dtype, sizes);
    const double us = gpu.median_us(kRepetitions, pass);
    row(std::string(name) + " time", us, "us", "", "all gradients");
    row(std::string(name) + " above the bound", us - pass.bytes() / copy_bandwidth, "us", "<= 20",
        "bound: its bytes at the copy's bandwidth");
    gpu.free(memory);
  };
  mix("ResNet-50 fp16", DType::kFp16, resnet50());
  mix("ResNet-50 fp32", DType::kFp32, resnet50());
  mix("7B transformer bf16", DType::kBf16, transformer7b());
}

}  // namespace scalewatch::gpu
