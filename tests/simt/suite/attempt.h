// An attempt as the host makes it: tensors in device memory, their descriptors, and the launches, run by the harness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/device/abi.h"
#include "cuda/record/record.h"
#include "tests/simt/harness/memory.h"
#include "tests/simt/harness/simt.h"
#include "tests/unit/cpu/reference.h"

namespace simt {

using scalewatch::DType;
using scalewatch::Record;
using scalewatch::cpu_test::Bytes;

// A tensor. Contiguous unless sizes are given.
struct Tensor {
  DType dtype = DType::kFp32;
  Bytes bytes;             // its memory
  std::size_t offset = 0;  // address modulo 16
  DType target = DType::kFp16;
  double scale = 1;
  bool scale_in_memory = false;  // as float
  std::vector<std::uint64_t> sizes;
  std::vector<std::int64_t> strides;  // in elements
  std::uint64_t first = 0;            // where in its memory element (0, ..., 0) lies
  bool null = false;                  // an empty one at no address
  std::string name;

  [[nodiscard]] std::uint64_t numel() const;
  // A contiguous copy in the order of indices.
  [[nodiscard]] Bytes elements() const;
};

// Fails the test unless a record's counts and extremes are those of the CPU's kernel, bit for bit, its sums within the record's
// bounds of a sum in long double, and rounded.
void check_record(const Record& got, const Tensor& tensor, const Record& cpu);

struct Scalar {
  scalewatch::device::U32 kind;
  std::uint64_t bits;  // the scalar's own bytes, in the lower ones
  bool null = false;
  scalewatch::device::U32 index = 0;
};

struct Way {
  Options options;
  unsigned processors = 2;
  unsigned grid = 0;                   // blocks of each launch; 0: as abi.h says for the processors
  std::uint32_t poison = kPoisons[0];  // of scratch and of results
  unsigned slots = 1;                  // of the result ring
  std::int64_t counter = -1;           // value of the device counter; -1: there is none
  std::vector<Scalar> scalars;
  unsigned first_record = 0;  // where in the block the records begin; those before it must stay as they are
};

// What a launch, or two, left. All of it except `fault` must not depend on the way's orders, grid and poison.
struct Outcome {
  std::string fault;
  std::vector<Record> records;
  std::vector<double> scalars;
  scalewatch::device::ResultHeader header{};
  std::uint64_t counter_after = 0;
  std::uint64_t slot = 0;
  std::vector<unsigned char> bits;  // of the scalars and records
};

// Tensors on the device. Launches may follow each other in any number.
class Attempt {
 public:
  explicit Attempt(std::vector<Tensor> tensors);

  // scalewatch_measure and scalewatch_finish.
  [[nodiscard]] Outcome measure(const Way& way = {}) const;
  // scalewatch_measure_one of one tensor.
  [[nodiscard]] Outcome measure_one(std::size_t tensor, const Way& way = {}) const;
  // scalewatch_exponents: all tensors' bins in a row. Fault: in *fault.
  [[nodiscard]] std::vector<std::uint64_t> exponents(const Way& way, std::string* fault) const;

  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  // What the CPU's kernel says.
  [[nodiscard]] Record expected(std::size_t tensor) const;
  // check_record for each tensor, and no fault.
  void check(const Outcome& outcome) const;

 private:
  struct Tables;
  [[nodiscard]] std::uint64_t chunks() const { return first_chunk_.back(); }

  std::vector<Tensor> tensors_;
  std::vector<DeviceMemory> memory_;
  std::vector<DeviceMemory> scales_;
  std::vector<scalewatch::device::TensorDesc> descriptors_;
  std::vector<scalewatch::device::StridedDesc> shapes_;
  std::vector<std::uint64_t> first_chunk_;
};

// scalewatch_gather alone.
[[nodiscard]] Outcome gather(const Way& way, bool advance);

// The kernel under test. The object that SCALEWATCH_SIMT_KERNELS names is loaded, or the one built beside this test. Aborts
// where there is none.
[[nodiscard]] const Kernel& kernel(const char* name);

}  // namespace simt
