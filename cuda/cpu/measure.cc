#include "cuda/cpu/measure.h"

#include "cuda/cpu/cuts.h"
#include "cuda/cpu/finish.h"
#include "cuda/cpu/float_environment.h"
#include "cuda/cpu/gather.h"
#include "cuda/cpu/kernel.h"
#include "cuda/record/format.h"

namespace scalewatch {
namespace {

// Cuts in the bits that the kernel works in.
cpu::Cuts working_cuts(DType dtype, DType target, double scale) noexcept {
  cpu::Cuts cuts = cpu::make_cuts(dtype, target, scale);
  const int shift = cpu::working_shift(dtype);
  for (std::uint64_t* cut :
       {&cuts.subnormal_below, &cuts.flushed_below, &cuts.over_from, &cuts.first_non_finite, &cuts.first_nan}) {
    *cut <<= shift;
  }
  return cuts;
}

// Not inlined: see DefaultFloatEnvironment.
[[gnu::noinline]] void measure_into(const void* data, DType dtype, std::uint64_t numel, DType target, double scale,
                                    Record& record) noexcept {
  const cpu::Cuts cuts = working_cuts(dtype, target, scale);
  cpu::State state;
  cpu::add_elements(data, dtype, numel, cuts, state);
  record = cpu::finish(state, dtype);
}

[[gnu::noinline]] void measure_into(const cpu::Walk& walk, DType dtype, DType target, double scale, Record& record) noexcept {
  const cpu::Cuts cuts = working_cuts(dtype, target, scale);
  cpu::State state;
  cpu::add_walk(walk, dtype, cuts, state);
  record = cpu::finish(state, dtype);
}

}  // namespace

Record measure(const void* data, DType dtype, std::uint64_t numel, DType target, double scale) noexcept {
  Record record;
  if (data == nullptr || numel == 0 || element_size(dtype) == 0) return record;
  const cpu::DefaultFloatEnvironment environment;
  measure_into(data, dtype, numel, target, scale, record);
  return record;
}

Record measure(const StridedTensor& tensor, DType target, double scale) noexcept {
  Record record;
  cpu::Walk walk;
  if (!cpu::make_walk(tensor, walk)) return record;
  const cpu::DefaultFloatEnvironment environment;
  measure_into(walk, tensor.dtype, target, scale, record);
  return record;
}

const char* instruction_set() noexcept {
  return cpu::target_name();
}

}  // namespace scalewatch
