#include "tests/simt/toys/probes.h"

#include "cuda/device/kernels/intrinsics.cuh"
#include "simt/table.h"

namespace scalewatch::device {
namespace {

struct Shared {
  U32 counter;
  U32 words[kThreads];
};

// Block b copies vector b of `in` to `out`, adds up in shared and in device memory, draws a ticket, and reads what its
// neighbour thread wrote before the barrier.
SCALEWATCH_KERNEL(1) memory_probe(U64 in, U64 out, U64 total, U64 ticket, U64 tickets, U64 neighbours) {
  Shared& shared = block_shared<Shared>();
  const U32 thread = thread_index();
  if (thread == 0) shared.counter = 5;
  shared.words[thread] = thread * 3;
  block_barrier();
  add_shared(shared.counter, thread);
  store<U32>(neighbours + (U64{block_index()} * kThreads + thread) * 4, shared.words[(thread + 1) % kThreads]);
  block_barrier();
  if (thread != 0) return;
  store<Words>(out + U64{block_index()} * 16, load_vector(in + U64{block_index()} * 16));
  add_global(total, shared.counter);
  device_fence();
  store<U32>(tickets + U64{block_index()} * 4, take_ticket(ticket, block_count() - 1));
}

// Reads through the intrinsic of that number.
SCALEWATCH_KERNEL(1) read_probe(U64 address, U32 which) {
  switch (which) {
    case 0:
      load<U8>(address);
      return;
    case 1:
      load<U16>(address);
      return;
    case 2:
      load<U32>(address);
      return;
    case 3:
      load<U64>(address);
      return;
    case 4:
      load_vector(address);
      return;
    case 5:
      load_fresh(address);
      return;
    default:
      store<U64>(address, 1);
  }
}

constexpr simt::Kernel kKernels[] = {SIMT_KERNEL(memory_probe), SIMT_KERNEL(read_probe)};

}  // namespace
}  // namespace scalewatch::device

std::span<const simt::Kernel> simt::probes::kernels() {
  return scalewatch::device::kKernels;
}
