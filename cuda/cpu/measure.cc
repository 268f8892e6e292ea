#include "cuda/cpu/measure.h"

#include <cstddef>

#include "cuda/cpu/cuts.h"
#include "cuda/cpu/finish.h"
#include "cuda/cpu/float_environment.h"
#include "cuda/cpu/gather.h"
#include "cuda/cpu/kernel.h"
#include "cuda/cpu/parts.h"
#include "cuda/cpu/workers.h"
#include "cuda/record/format.h"

namespace scalewatch {
namespace {

// What is measured: contiguous elements or a walk.
struct Source {
  const std::byte* data;  // null: the walk
  const cpu::Walk* walk;
  DType dtype;
  std::uint64_t numel;
  cpu::Cuts cuts;
};

void add_range(const Source& source, std::uint64_t first, std::uint64_t count, cpu::State& state) noexcept {
  if (source.data == nullptr) return cpu::add_walk(*source.walk, source.dtype, first, count, source.cuts, state);
  cpu::add_elements(source.data + first * element_size(source.dtype), source.dtype, count, source.cuts, state);
}

// One measurement's parts, on whichever thread takes them.
struct PartsJob {
  const Source& source;
  const cpu::Parts& parts;
  cpu::State* states;

  static void add_part(void* context, std::size_t part) noexcept {
    const PartsJob& job = *static_cast<const PartsJob*>(context);
    const cpu::DefaultFloatEnvironment environment;
    measure_part(job, part);
  }

  // Not inlined: see DefaultFloatEnvironment.
  [[gnu::noinline]] static void measure_part(const PartsJob& job, std::size_t part) noexcept {
    job.states[part] = {};
    add_range(job.source, job.parts.first(part), job.parts.size(part), job.states[part]);
  }
};

// Not inlined: see DefaultFloatEnvironment.
[[gnu::noinline]] void measure_into(const Source& source, Workers* workers, Record& record) noexcept {
  const cpu::Parts parts(source.numel);
  cpu::State total;
  if (parts.count() == 1) {
    add_range(source, 0, source.numel, total);
  } else if (const WorkersLease lease(source.numel * element_size(source.dtype) >= cpu::kWorthThreads ? workers : nullptr);
             lease) {
    PartsJob job{source, parts, lease.states()};
    lease.run(parts.count(), PartsJob::add_part, &job);
    for (std::size_t part = 0; part < parts.count(); ++part) merge(total, job.states[part]);
  } else {
    for (std::size_t part = 0; part < parts.count(); ++part) {
      cpu::State state;
      add_range(source, parts.first(part), parts.size(part), state);
      merge(total, state);
    }
  }
  record = cpu::finish(total, source.dtype);
}

}  // namespace

Record measure(const void* data, DType dtype, std::uint64_t numel, DType target, double scale, Workers* workers) noexcept {
  Record record;
  if (data == nullptr || numel == 0 || element_size(dtype) == 0) return record;
  const cpu::DefaultFloatEnvironment environment;
  measure_into({static_cast<const std::byte*>(data), nullptr, dtype, numel, cpu::make_cuts(dtype, target, scale)}, workers,
               record);
  return record;
}

Record measure(const StridedTensor& tensor, DType target, double scale, Workers* workers) noexcept {
  Record record;
  cpu::Walk walk;
  if (!cpu::make_walk(tensor, walk)) return record;
  const cpu::DefaultFloatEnvironment environment;
  measure_into({nullptr, &walk, tensor.dtype, count_elements(walk), cpu::make_cuts(tensor.dtype, target, scale)}, workers,
               record);
  return record;
}

const char* instruction_set() noexcept {
  return cpu::target_name();
}

}  // namespace scalewatch
