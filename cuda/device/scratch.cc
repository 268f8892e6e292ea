#include "cuda/device/scratch.h"

#include <algorithm>
#include <new>

namespace scalewatch::cuda {
namespace {

constexpr std::uint64_t kTicketBytes = 256;  // keeps the partials aligned
constexpr std::uint64_t kFewestChunks = 1024;

template <class T>
bool keep(std::vector<T>& in, T value) noexcept {
  try {
    in.push_back(value);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

Memory::~Memory() {
  if (left_ || (device_blocks_.empty() && host_blocks_.empty() && events_.empty())) return;
  const Functions& f = device_.driver();
  Context popped = nullptr;
  const bool pushed = device_.context() != nullptr && f.push_context(device_.context()) == kSuccess;
  // Errors: the context failed or is gone, and its memory with it.
  for (const Event event : events_) f.destroy_event(event);
  for (const DevicePointer block : device_blocks_) f.free(block);
  for (void* block : host_blocks_) f.free_host(block);
  if (pushed) f.pop_context(&popped);
}

template <class Allocate>
bool Memory::allocate(bool can_do_without, const Allocate& allocate) noexcept {
  bool made = false;
  device_.call([&] {
    const Status status = allocate(device_.driver());
    made = status == kSuccess;
    return can_do_without && status == kErrorOutOfMemory ? kSuccess : status;
  });
  return made;
}

DevicePointer Memory::device_bytes(std::uint64_t bytes, bool can_do_without) noexcept {
  DevicePointer made = 0;
  if (!allocate(can_do_without, [&](const Functions& f) { return f.allocate(&made, static_cast<std::size_t>(bytes)); })) {
    return 0;
  }
  if (keep(device_blocks_, made)) return made;
  device_.call(device_.driver().free, made);
  device_.fail(Cause::kOutOfMemory, kErrorOutOfMemory);
  return 0;
}

unsigned char* Memory::host_bytes(std::uint64_t bytes, bool can_do_without) noexcept {
  void* made = nullptr;
  if (!allocate(can_do_without,
                [&](const Functions& f) { return f.allocate_host(&made, static_cast<std::size_t>(bytes), kHostPortable); })) {
    return nullptr;
  }
  if (keep(host_blocks_, made)) return static_cast<unsigned char*>(made);
  device_.call(device_.driver().free_host, made);
  device_.fail(Cause::kOutOfMemory, kErrorOutOfMemory);
  return nullptr;
}

Event Memory::event(bool timed) noexcept {
  Event made = nullptr;
  if (!device_.call(device_.driver().create_event, &made, timed ? kEventTimed : kEventUntimed)) return nullptr;
  if (keep(events_, made)) return made;
  device_.call(device_.driver().destroy_event, made);
  device_.fail(Cause::kOutOfMemory, kErrorOutOfMemory);
  return nullptr;
}

bool Scratches::make(Scratch& scratch, Stream stream, std::uint64_t chunks) noexcept {
  const RelaxedCapture relaxed(device_);
  const DevicePointer memory = memory_.device_bytes(kTicketBytes + chunks * sizeof(device::Partial));
  // The ticket starts at 0. In a captured stream this becomes a part of the graph, and does no harm.
  if (memory == 0 || !device_.call(device_.driver().set_async, memory, static_cast<unsigned char>(0),
                                   static_cast<std::size_t>(kTicketBytes), stream)) {
    return false;
  }
  scratch = {stream, true, memory + kTicketBytes, memory, chunks};
  return true;
}

Scratch* Scratches::of(Stream stream, std::uint64_t chunks, std::uint64_t expected) noexcept {
  Scratch* found = nullptr;
  for (Scratch& each : scratches_) {
    if (found == nullptr && (!each.used || each.stream == stream)) found = &each;  // they are used in order
  }
  if (found == nullptr) return nullptr;
  // What was too small stays allocated: kernels in flight may use it.
  if (!found->used || found->chunks < chunks) {
    const std::uint64_t room = std::max({chunks + chunks / 2, expected, kFewestChunks});
    if (!make(*found, stream, room)) return nullptr;
  }
  return found;
}

}  // namespace scalewatch::cuda
