// A libcuda.so.1 for tests: what a test sees and does of it. Its cu... functions are in api.cc and are called through dlsym.
//
// Works like the driver where it matters to a client: copies, fills and launches wait in their stream until the test runs the
// stream (or, when automatic, until an event is asked for); memory of a device is host memory between guard bytes; contexts
// are checked; graphs can be captured and replayed. Launches run Scalewatch's own kernels on the SIMT harness (tests/simt).
// Every call is recorded, and any can be made to fail. Misuse that the real driver would answer with undefined behaviour is
// noted. Thread-safe.
//
// A process that is not a test can be told by its environment: SCALEWATCH_FAKE_CUDA_AUTOMATIC=1 makes it automatic,
// SCALEWATCH_FAKE_CUDA_FAIL=NAME:STATUS:SKIP makes calls of that name fail, but for the first SKIP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace fake_cuda {

struct Call {
  std::string name;
  int status = 0;
  std::thread::id thread;
};

struct Architecture {
  int major = 9;
  int minor = 0;
};

// Back to the beginning: two devices of architecture 9.0, driver 12.4, nothing injected, no call recorded, not automatic.
// Nothing of the one before may be in use.
void reset();
void set_devices(std::vector<Architecture> devices);
void set_driver_version(int version);
void set_init_status(int status);
// Streams run by themselves whenever an event is asked for or a stream is waited for.
void set_automatic(bool automatic);
// Device memory that can be had, over all devices.
void set_memory_limit(std::size_t bytes);

// ---- faults ----
// The call with this number (from 0, after reset) fails; sticky: every later one too.
void fail_call(std::uint64_t number, int status, bool sticky = false);
// The next call of this name fails.
void fail_next(const std::string& name, int status, bool sticky = false);
// From now on every call fails so (an error of the trainer's kernels).
void fail_all(int status);

// ---- what happened ----
[[nodiscard]] std::vector<Call> calls();
[[nodiscard]] std::uint64_t call_count();
void forget_calls();
// What was done that must not be done; one line each.
[[nodiscard]] std::vector<std::string> misuse();
[[nodiscard]] std::size_t allocations();  // of device and pinned memory that live, modules, events and contexts included

// ---- what a trainer does; not recorded as calls ----
[[nodiscard]] void* make_stream(int device);
void destroy_stream(void* stream);
[[nodiscard]] std::uint64_t make_memory(int device, std::size_t bytes);  // a host address at the same time
void free_memory(std::uint64_t pointer);
void make_current(int device);  // the device's primary context on this thread; -1 = none
// Runs what waits in a stream (nullptr: the legacy default stream of every device), or in all.
void run(void* stream);
void run_all();
void enqueue(void* stream, std::function<void()> work);
void begin_capture(void* stream);
[[nodiscard]] int end_capture(void* stream);  // a graph
void replay(int graph, void* stream);

}  // namespace fake_cuda
