#include "tests/gpu/correctness.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include "cuda/cpu/measure.h"
#include "cuda/device/measurer.h"
#include "cuda/record/format.h"

namespace scalewatch::gpu {
namespace {

constexpr DType kTypes[] = {DType::kFp64, DType::kFp32, DType::kFp16, DType::kBf16, DType::kE4m3fn, DType::kE5m2};
enum class Values { kBits, kOrdinary, kZeros, kOneNonFinite };
constexpr Values kValues[] = {Values::kBits, Values::kOrdinary, Values::kZeros, Values::kOneNonFinite};

struct Case {
  std::string name;
  DType dtype = DType::kUnspecified;
  DType target = DType::kFp16;
  std::size_t offset = 0;  // bytes into its memory
  std::vector<unsigned char> bytes;
  std::uint64_t numel = 0;
  std::uint64_t address = 0;
};

// Random bits are of every exponent, NaN and Inf among them; ordinary values are about 1.
void fill(std::vector<unsigned char>& bytes, std::size_t offset, std::size_t element, Values values, DType dtype,
          std::mt19937_64& random) {
  const std::size_t count = (bytes.size() - offset) / element;
  const FormatLayout layout = format_layout(dtype);
  const std::uint64_t one = static_cast<std::uint64_t>(layout.bias) << layout.mantissa_bits;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    if (values != Values::kBits) {
      const std::uint64_t fraction = bits & ((std::uint64_t{1} << layout.mantissa_bits) - 1);
      bits = one | fraction | (bits >> 63U) << (layout.bits - 1);
    }
    if (values == Values::kZeros) bits = 0;
    if (values == Values::kOneNonFinite && i == count / 2) bits = layout.first_non_finite;
    std::memcpy(bytes.data() + offset + i * element, &bits, element);
  }
}

std::vector<Case> make_cases(Gpu& gpu, bool small) {
  std::vector<std::uint64_t> sizes = {0, 1, 7, 255, 4099};
  if (!small) sizes.insert(sizes.end(), {65'537, 1'000'003, std::uint64_t{1} << 25});
  std::mt19937_64 random(7);
  std::vector<Case> cases;
  for (const DType dtype : kTypes) {
    const std::uint64_t element = element_size(dtype);
    for (const std::uint64_t numel : sizes) {
      for (std::size_t offset = 0; offset < 16; offset += 5 * element) {
        for (const Values values : kValues) {
          Case made;
          made.name = "type " + std::to_string(static_cast<int>(dtype)) + ", " + std::to_string(numel) + " elements, offset " +
                      std::to_string(offset) + ", values " + std::to_string(static_cast<int>(values));
          made.dtype = dtype;
          made.target = kTypes[cases.size() % std::size(kTypes)];
          made.offset = offset;
          made.numel = numel;
          made.bytes.resize(offset + numel * element);
          fill(made.bytes, offset, element, values, dtype, random);
          made.address = gpu.put(made.bytes) + offset;
          cases.push_back(std::move(made));
        }
      }
    }
  }
  return cases;
}

device::TensorDesc describe(const Case& of, std::uint64_t scale_at) {
  const auto dtype = static_cast<device::U8>(of.dtype);
  return {of.address, of.numel, scale_at, 1, 0, dtype, static_cast<device::U8>(of.target), device::chunk_shift(dtype, of.numel),
          0};
}

bool same_float(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Counts and extremes are equal; each sum may be wrong by 1e-6, of magnitudes and of itself.
std::string difference(const Record& got, const Record& want) {
  const std::pair<const char*, bool> fields[] = {{"numel", got.numel == want.numel},
                                                 {"nan", got.nan == want.nan},
                                                 {"pos_inf", got.pos_inf == want.pos_inf},
                                                 {"neg_inf", got.neg_inf == want.neg_inf},
                                                 {"zero", got.zero == want.zero},
                                                 {"subnormal", got.subnormal == want.subnormal},
                                                 {"flushed", got.flushed == want.flushed},
                                                 {"over", got.over == want.over},
                                                 {"min", same_float(got.min, want.min)},
                                                 {"max", same_float(got.max, want.max)},
                                                 {"absmin_nonzero", same_float(got.absmin_nonzero, want.absmin_nonzero)}};
  for (const auto& [name, equal] : fields) {
    if (!equal) return name;
  }
  // The sum of magnitudes is at most this.
  const double magnitudes = std::sqrt(static_cast<double>(want.numel)) * std::sqrt(want.sum_sq);
  if (std::abs(got.sum - want.sum) > 2e-6 * magnitudes) return "sum";
  if (std::abs(got.sum_sq - want.sum_sq) > 2e-6 * want.sum_sq) return "sum_sq";
  return {};
}

class Checker {
 public:
  Checker(Gpu& gpu, bool small) : gpu_(gpu), measurer_(cuda::driver(), 0), cases_(make_cases(gpu, small)) {
    const std::vector<float> scale = {512};
    scale_at_ = gpu.put(scale);
    for (const Case& each : cases_) tensors_.push_back(describe(each, scale_at_));
  }

  int run() {
    if (measurer_.device().quiet()) {
      char detail[256] = "";
      measurer_.device().describe_fault(detail, sizeof detail);
      complain("the device", detail);
      return differences_;
    }
    fused();
    one_by_one();
    graph();
    strided();
    histograms();
    std::printf("correctness: %zu tensors fused, one by one, in a graph, strided, and their histograms: %d differences\n",
                cases_.size(), differences_);
    return differences_;
  }

 private:
  void complain(const std::string& what, const std::string& how) {
    if (++differences_ <= 20) std::fprintf(stderr, "%s: %s differs\n", what.c_str(), how.c_str());
  }

  // Sends the batch, waits, and compares each record.
  std::vector<Record> take(cuda::Batch& batch, const char* how) {
    std::vector<Record> records;
    gpu_.wait();
    if (batch.poll() != cuda::Batch::Ready::kYes || batch.take_blocks() != 1) {
      complain(how, "that there are results");
      return records;
    }
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const Case& each = cases_[i];
      records.push_back(batch.record(0, i));
      const Record want = measure(each.bytes.data() + each.offset, each.dtype, each.numel, each.target, 512);
      if (const std::string field = difference(records.back(), want); !field.empty()) complain(how + (": " + each.name), field);
    }
    batch.give_back();
    return records;
  }

  void fused() {
    const cuda::Work work{tensors_, {}, {}};
    std::vector<Record> first;
    for (int i = 0; i < 3; ++i) {
      cuda::Batch* batch = measurer_.open(gpu_.stream(), cases_.size(), work.packet_bytes());
      if (batch == nullptr || !measurer_.launch(*batch, work)) return complain("fused", "that it launches");
      batch->record_tags.resize(cases_.size());
      if (!measurer_.send(*batch)) return complain("fused", "that it is sent");
      const std::vector<Record> records = take(*batch, "fused");
      if (i == 0) first = records;
      if (std::memcmp(first.data(), records.data(), records.size() * sizeof(Record)) != 0) complain("fused", "a second run");
    }
  }

  void one_by_one() {
    cuda::Batch* batch = measurer_.open(gpu_.stream(), cases_.size(), 0);
    if (batch == nullptr) return complain("one by one", "that there is memory");
    for (const device::TensorDesc& tensor : tensors_) {
      if (!measurer_.launch_one(*batch, tensor, nullptr)) return complain("one by one", "that it launches");
      batch->record_tags.emplace_back();
    }
    if (!measurer_.send(*batch)) return complain("one by one", "that it is sent");
    take(*batch, "one by one");
  }

  void graph() {
    const cuda::Work work{tensors_, {}, {}};
    gpu_.begin_capture();
    cuda::Graph* graph = measurer_.record(gpu_.stream(), cases_.size(), work.packet_bytes(), work.chunks());
    const bool launched = graph != nullptr && measurer_.launch(*graph, work, true);
    void* const captured = gpu_.end_capture();
    if (!launched) return complain("graph", "that it is captured");
    for (int i = 0; i < 3; ++i) {
      gpu_.replay(captured);
      cuda::Batch* batch = measurer_.collect(*graph, gpu_.stream());
      if (batch == nullptr) return complain("graph", "that it is collected");
      batch->record_tags.resize(cases_.size());
      take(*batch, "graph");
    }
  }

  // Every other element.
  void strided() {
    std::vector<device::StridedDesc> shapes;
    std::vector<device::TensorDesc> tensors = tensors_;
    for (device::TensorDesc& tensor : tensors) {
      tensor.numel /= 2;
      tensor.chunk_shift = device::chunk_shift(tensor.dtype, tensor.numel);
      if (tensor.numel == 0) continue;
      shapes.push_back({{tensor.numel}, {2}, 1, 0});
      tensor.strided = static_cast<std::uint32_t>(shapes.size());
    }
    const cuda::Work work{tensors, shapes, {}};
    cuda::Batch* batch = measurer_.open(gpu_.stream(), cases_.size(), work.packet_bytes());
    if (batch == nullptr || !measurer_.launch(*batch, work)) return complain("strided", "that it launches");
    batch->record_tags.resize(cases_.size());
    if (!measurer_.send(*batch)) return complain("strided", "that it is sent");
    gpu_.wait();
    if (batch->poll() != cuda::Batch::Ready::kYes) return complain("strided", "that there are results");
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const Case& each = cases_[i];
      const StridedTensor view{each.bytes.data() + each.offset, each.dtype, 1, {each.numel / 2}, {2}};
      const std::string field = difference(batch->record(0, i), measure(view, each.target, 512));
      if (!field.empty()) complain("strided: " + each.name, field);
    }
    batch->give_back();
  }

  void histograms() {
    const cuda::Work work{tensors_, {}, {}, tensors_};
    cuda::Batch* batch = measurer_.open(gpu_.stream(), cases_.size(), work.packet_bytes(), cases_.size());
    if (batch == nullptr || !measurer_.launch(*batch, work)) return complain("histograms", "that they launch");
    batch->record_tags.resize(cases_.size());
    batch->exponent_tags.resize(cases_.size());
    if (!measurer_.send(*batch)) return complain("histograms", "that they are sent");
    gpu_.wait();
    if (batch->poll() != cuda::Batch::Ready::kYes) return complain("histograms", "that there are results");
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const Case& each = cases_[i];
      ExponentCounts got;
      ExponentCounts want;
      batch->add_exponents(i, got);
      measure_exponents(each.bytes.data() + each.offset, each.dtype, each.numel, want);
      if (got.counts != want.counts) complain("histograms: " + each.name, "the counts");
    }
    batch->give_back();
  }

  Gpu& gpu_;
  cuda::Measurer measurer_;
  std::vector<Case> cases_;
  std::vector<device::TensorDesc> tensors_;
  std::uint64_t scale_at_ = 0;
  int differences_ = 0;
};

}  // namespace

int check_correctness(Gpu& gpu, bool small) {
  return Checker(gpu, small).run();
}

}  // namespace scalewatch::gpu
