#include "tests/simt/suite/attempt.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cuda/cpu/measure.h"
#include "cuda/record/format.h"
#include "cuda/record/merge.h"

namespace simt {
namespace {

using namespace scalewatch::device;  // NOLINT(google-build-using-namespace): the ABI's names

U64 address_of(const void* pointer) {
  return reinterpret_cast<U64>(pointer);
}

template <class T>
DeviceMemory upload(const std::vector<T>& values) {
  DeviceMemory memory(values.size() * sizeof(T), 16);
  memory.fill(values.data());
  return memory;
}

// The result ring, the scalars and the ticket of one launch.
class ResultMemory {
 public:
  ResultMemory(const Way& way, U32 records)
      : way_(way),
        records_(records),
        block_bytes_((result_block_bytes(static_cast<U32>(way.scalars.size()), records) + 15) / 16 * 16),
        ring_(block_bytes_ * way.slots, 16, 0, Flush::kEnd, way.poison),
        counter_(8, 8),
        ticket_(4, 4) {
    *counter_.as<U64>() = way.counter < 0 ? 0 : static_cast<U64>(way.counter);
    *ticket_.as<U32>() = 0;
    std::vector<ScalarSource> sources;
    for (const Scalar& scalar : way.scalars) {
      const bool wide = scalar.kind == kScalarDouble || scalar.kind == kScalarInt64;
      values_.emplace_back(wide ? 8 : 4, 4);
      values_.back().fill(&scalar.bits);
      sources.push_back({scalar.null ? 0 : address_of(values_.back().data()), scalar.kind, scalar.index});
    }
    sources_.emplace_back(upload(sources));
  }

  [[nodiscard]] Results results() const {
    return {address_of(ring_.data()),
            block_bytes_,
            records_offset(scalar_count()),
            way_.counter < 0 ? 0 : address_of(counter_.data()),
            way_.slots,
            0};
  }
  [[nodiscard]] U32 scalar_count() const { return static_cast<U32>(way_.scalars.size()); }
  [[nodiscard]] U64 scalars() const { return scalar_count() == 0 ? 0 : address_of(sources_[0].data()); }
  [[nodiscard]] U64 ticket() const { return address_of(ticket_.data()); }

  void read(Outcome& outcome) const {
    if (*ticket_.as<U32>() != 0) outcome.fault = "the ticket was not left at 0";
    outcome.slot = way_.counter < 0 ? 0 : static_cast<U64>(way_.counter) % way_.slots;
    outcome.counter_after = *counter_.as<U64>();
    const std::byte* const block = ring_.data() + outcome.slot * block_bytes_;
    std::memcpy(&outcome.header, block, sizeof outcome.header);
    outcome.scalars.resize(scalar_count());
    if (scalar_count() != 0) std::memcpy(outcome.scalars.data(), block + kScalarsOffset, 8 * outcome.scalars.size());
    for (U32 i = way_.first_record; i < records_; ++i) {
      DeviceRecord from;
      std::memcpy(&from, block + records_offset(scalar_count()) + i * sizeof from, sizeof from);
      outcome.records.push_back({from.numel, from.nan, from.pos_inf, from.neg_inf, from.zero, from.subnormal, from.flushed,
                                 from.over, from.sum, from.sum_sq, from.min, from.max, from.absmin_nonzero});
      if (from.reserved != 0) outcome.fault = "a record's reserved word is not 0";
    }
    const auto append = [&outcome](const std::byte* from, std::size_t bytes) {
      const auto* const at = reinterpret_cast<const unsigned char*>(from);
      outcome.bits.insert(outcome.bits.end(), at, at + bytes);
    };
    append(block + kScalarsOffset, 8 * scalar_count());
    append(block + records_offset(scalar_count()) + way_.first_record * sizeof(DeviceRecord),
           (records_ - way_.first_record) * sizeof(DeviceRecord));
    // Nobody else's memory was touched.
    for (unsigned slot = 0; slot < way_.slots; ++slot) {
      if (slot != outcome.slot && !untouched(slot * block_bytes_, block_bytes_)) outcome.fault = "another slot was written";
    }
    const U64 before = outcome.slot * block_bytes_ + records_offset(scalar_count());
    if (!untouched(before, way_.first_record * sizeof(DeviceRecord))) outcome.fault = "another's record was written";
  }

 private:
  [[nodiscard]] bool untouched(U64 from, U64 bytes) const {
    for (U64 i = from; i < from + bytes; ++i) {
      if (ring_.data()[i] != static_cast<std::byte>(way_.poison >> (8 * (i % 4)))) return false;
    }
    return true;
  }

  const Way& way_;
  U32 records_;
  U64 block_bytes_;
  DeviceMemory ring_;
  DeviceMemory counter_;
  DeviceMemory ticket_;
  std::vector<DeviceMemory> values_;
  std::vector<DeviceMemory> sources_;
};

template <class Params>
std::string run(const char* name, U32 grid, Params params, const Way& way) {
  Options options = way.options;
  void* arguments[] = {&params};
  const Result result = launch(kernel(name), {way.grid != 0 ? way.grid : grid}, {kThreads}, 0, arguments, options);
  return result.ok() ? std::string() : std::string(name) + ": " + result.fault;
}

}  // namespace

const Kernel& kernel(const char* name) {
  using Find = const Kernel* (*)(const char*);
  static const Find find = [] {
    const char* path = std::getenv("SCALEWATCH_SIMT_KERNELS");
    void* object = dlopen(path != nullptr ? path : SCALEWATCH_SIMT_KERNELS_BUILT, RTLD_NOW | RTLD_LOCAL);
    void* symbol = object == nullptr ? nullptr : dlsym(object, "simt_find_kernel");
    if (symbol == nullptr) {
      std::fprintf(stderr, "no kernels: %s\n", dlerror());
      std::abort();
    }
    return reinterpret_cast<Find>(symbol);
  }();
  const Kernel* found = find(name);
  if (found == nullptr) {
    std::fprintf(stderr, "no kernel %s\n", name);
    std::abort();
  }
  return *found;
}

std::uint64_t Tensor::numel() const {
  if (sizes.empty()) {
    const std::uint64_t size = scalewatch::element_size(dtype);
    return size == 0 ? bytes.size() : bytes.size() / size;
  }
  std::uint64_t product = 1;
  for (const std::uint64_t size : sizes) product *= size;
  return product;
}

Attempt::Attempt(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  first_chunk_.push_back(0);
  for (const Tensor& tensor : tensors_) {
    memory_.emplace_back(tensor.bytes.size(), 16, tensor.offset);
    memory_.back().fill(tensor.bytes.data());
    TensorDesc descriptor{};
    descriptor.data = address_of(memory_.back().data()) + tensor.first * scalewatch::element_size(tensor.dtype);
    if (tensor.null) descriptor.data = 0;
    descriptor.numel = tensor.numel();
    descriptor.scale = tensor.scale;
    if (tensor.scale_in_memory) {
      const auto scale = static_cast<float>(tensor.scale);
      scales_.emplace_back(4, 4);
      scales_.back().fill(&scale);
      descriptor.scale_address = address_of(scales_.back().data());
      descriptor.scale = 3e-9;  // not to be looked at
    }
    descriptor.dtype = static_cast<U8>(tensor.dtype);
    descriptor.target = static_cast<U8>(tensor.target);
    descriptor.chunk_shift = chunk_shift(descriptor.dtype, descriptor.numel);
    if (!tensor.sizes.empty()) {
      StridedDesc shape{};
      shape.dims = static_cast<U32>(tensor.sizes.size());
      std::copy(tensor.sizes.begin(), tensor.sizes.end(), shape.sizes);
      std::copy(tensor.strides.begin(), tensor.strides.end(), shape.strides);
      shapes_.push_back(shape);
      descriptor.strided = static_cast<U32>(shapes_.size());
    }
    descriptors_.push_back(descriptor);
    first_chunk_.push_back(first_chunk_.back() + chunk_count(descriptor));
  }
}

Outcome Attempt::measure(const Way& way) const {
  const DeviceMemory descriptors = upload(descriptors_);
  const DeviceMemory first_chunk = upload(first_chunk_);
  const DeviceMemory shapes = upload(shapes_);
  const DeviceMemory partials(chunks() * sizeof(Partial), 16, 0, Flush::kEnd, way.poison);
  const auto count = static_cast<U32>(tensors_.size());
  const ResultMemory memory(way, way.first_record + count);
  Outcome outcome;
  const U64 shape_table = shapes_.empty() ? 0 : address_of(shapes.data());
  if (chunks() != 0) {
    const MeasureParams params{
        address_of(descriptors.data()), address_of(first_chunk.data()), shape_table, address_of(partials.data()), count, 0};
    outcome.fault = run(kMeasureName, measure_grid(chunks(), way.processors), params, way);
  }
  if (outcome.fault.empty()) {
    const FinishParams params{address_of(descriptors.data()),
                              address_of(first_chunk.data()),
                              address_of(partials.data()),
                              memory.scalars(),
                              memory.ticket(),
                              memory.results(),
                              count,
                              memory.scalar_count(),
                              way.first_record,
                              way.counter < 0 ? 0U : 1U};
    outcome.fault = run(kFinishName, finish_grid(count, way.processors), params, way);
  }
  if (outcome.fault.empty()) memory.read(outcome);
  return outcome;
}

Outcome Attempt::measure_one(std::size_t tensor, const Way& way) const {
  MeasureOneParams params{};
  params.tensor = descriptors_[tensor];
  if (params.tensor.strided != 0) {
    params.shape = shapes_[params.tensor.strided - 1];
    params.tensor.strided = 1;
  }
  const U64 chunk_total = chunk_count(params.tensor);
  const DeviceMemory partials(chunk_total * sizeof(Partial), 16, 0, Flush::kEnd, way.poison);
  const ResultMemory memory(way, way.first_record + 1);
  params.record = way.first_record;
  params.partials = address_of(partials.data());
  params.ticket = memory.ticket();
  params.results = memory.results();
  Outcome outcome;
  outcome.fault = run(kMeasureOneName, one_grid(chunk_total, way.processors), params, way);
  if (outcome.fault.empty()) memory.read(outcome);
  return outcome;
}

std::vector<std::uint64_t> Attempt::exponents(const Way& way, std::string* fault) const {
  const DeviceMemory descriptors = upload(descriptors_);
  const DeviceMemory first_chunk = upload(first_chunk_);
  const DeviceMemory shapes = upload(shapes_);
  const DeviceMemory counts(tensors_.size() * kExponentBins * 8, 8);
  std::memset(counts.data(), 0, counts.size());
  const ExponentsParams params{
      address_of(descriptors.data()), address_of(first_chunk.data()),    shapes_.empty() ? 0 : address_of(shapes.data()),
      address_of(counts.data()),      static_cast<U32>(tensors_.size()), 0};
  *fault = chunks() == 0 ? std::string() : run(kExponentsName, measure_grid(chunks(), way.processors), params, way);
  return {counts.as<std::uint64_t>(), counts.as<std::uint64_t>() + tensors_.size() * kExponentBins};
}

Outcome gather(const Way& way, bool advance) {
  const ResultMemory memory(way, 0);
  const GatherParams params{memory.scalars(), memory.results(), memory.scalar_count(), advance ? 1U : 0U};
  Outcome outcome;
  Way one_block = way;
  one_block.grid = 1;
  outcome.fault = run(kGatherName, 1, params, one_block);
  if (outcome.fault.empty()) memory.read(outcome);
  return outcome;
}

Record Attempt::expected(std::size_t index) const {
  const Tensor& tensor = tensors_[index];
  const double scale = tensor.scale_in_memory ? static_cast<double>(static_cast<float>(tensor.scale)) : tensor.scale;
  if (tensor.sizes.empty()) {
    return scalewatch::measure(tensor.bytes.data(), tensor.dtype, tensor.numel(), tensor.target, scale);
  }
  scalewatch::StridedTensor strided;
  strided.data = tensor.bytes.data() + tensor.first * scalewatch::element_size(tensor.dtype);
  strided.dtype = tensor.dtype;
  strided.dims = tensor.sizes.size();
  std::copy(tensor.sizes.begin(), tensor.sizes.end(), strided.sizes);
  std::copy(tensor.strides.begin(), tensor.strides.end(), strided.strides);
  return scalewatch::measure(strided, tensor.target, scale);
}

Bytes Tensor::elements() const {
  if (sizes.empty()) return bytes;
  const std::uint64_t size = scalewatch::element_size(dtype);
  Bytes copy;
  std::vector<std::uint64_t> index(sizes.size());
  for (std::uint64_t left = numel(); left > 0; --left) {
    std::uint64_t at = first;
    for (std::size_t i = 0; i < sizes.size(); ++i) at += index[i] * static_cast<std::uint64_t>(strides[i]);
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at * size);
    copy.insert(copy.end(), from, from + static_cast<std::ptrdiff_t>(size));
    for (std::size_t dim = sizes.size(); dim > 0 && ++index[dim - 1] == sizes[dim - 1];) index[--dim] = 0;
  }
  return copy;
}

void check_record(const Record& got, const Tensor& tensor, const Record& cpu) {
  namespace ct = scalewatch::cpu_test;
  const std::string where = ct::name_of(tensor.dtype) + " x " + std::to_string(tensor.numel()) + " at +" +
                            std::to_string(tensor.offset) + " as " + ct::name_of(tensor.target) + " / " +
                            std::to_string(tensor.scale) + " " + tensor.name;
  Record same = got;  // sums may differ in their last bits
  same.sum = cpu.sum;
  same.sum_sq = cpu.sum_sq;
  for (float Record::*field : {&Record::min, &Record::max, &Record::absmin_nonzero}) {
    if (std::isnan(same.*field) && std::isnan(cpu.*field)) same.*field = cpu.*field;
  }
  ct::expect_identical(same, cpu, where);
  if (scalewatch::element_size(tensor.dtype) == 0) return;
  const Bytes elements = tensor.elements();
  const double scale = tensor.scale_in_memory ? static_cast<double>(static_cast<float>(tensor.scale)) : tensor.scale;
  ct::expect_matches(
      got, ct::reference(elements.data(), tensor.dtype, tensor.numel(), tensor.target, scalewatch::effective_scale(scale)),
      where);
  EXPECT_EQ(got.sum, scalewatch::round_to_24_bits(got.sum)) << where;
  EXPECT_EQ(got.sum_sq, scalewatch::round_to_24_bits(got.sum_sq)) << where;
}

void Attempt::check(const Outcome& outcome) const {
  ASSERT_EQ(outcome.fault, "");
  ASSERT_EQ(outcome.records.size(), tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) check_record(outcome.records[i], tensors_[i], expected(i));
}

}  // namespace simt
