// What the fake driver knows. Internal to tests/fake_cuda.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/simt/harness/simt.h"

namespace fake_cuda {

struct Context {
  int device = 0;
  int retained = 0;
};
struct Module {
  Context* context = nullptr;
};
struct Function {
  Context* context = nullptr;
  Module* module = nullptr;
  const simt::Kernel* kernel = nullptr;
  std::size_t parameter_bytes = 0;
};
struct Event {
  Context* context = nullptr;
  bool timed = false;
  std::uint64_t recorded = 0;   // times
  std::uint64_t completed = 0;  // number of the latest record that was reached
  double at_ms = 0;
};
struct Stream {
  int device = 0;
  std::deque<std::function<void()>> work;
  bool capturing = false;
  std::vector<std::function<void()>> captured;
};
struct Memory {
  std::size_t bytes = 0;
  bool pinned = false;
  int device = -1;
};

struct State {
  std::recursive_mutex mutex;
  std::vector<Architecture> devices;
  std::vector<std::unique_ptr<Context>> contexts;  // primary, one a device
  std::vector<std::unique_ptr<Stream>> legacy;     // default streams, one a device
  int version = 12040;
  int init_status = 0;
  bool initialised = false;
  bool automatic = false;
  std::size_t memory_limit = SIZE_MAX;
  std::size_t memory_taken = 0;
  std::set<std::unique_ptr<Stream>> streams;
  std::set<std::unique_ptr<Module>> modules;
  std::set<std::unique_ptr<Function>> functions;
  std::set<std::unique_ptr<Event>> events;
  std::map<std::uint64_t, Memory> memory;  // by address
  std::vector<std::vector<std::function<void()>>> graphs;
  std::vector<Call> calls;
  std::uint64_t call_number = 0;
  std::optional<std::pair<std::uint64_t, int>> fail_number;
  std::map<std::string, int> fail_name;
  std::map<std::string, std::pair<int, int>> fail_after;  // status; calls that still succeed
  bool sticky = false;
  int failing = 0;  // every call fails so
  std::vector<std::string> misuse;
  double clock_ms = 0;

  void note(const std::string& what) {
    if (misuse.size() < 100) misuse.push_back(what);
  }
};
State& state();

// The context stack of this thread.
std::vector<Context*>& context_stack();

// Memory that holds all of [address, address + bytes); null when there is none.
Memory* find_memory(std::uint64_t address, std::size_t bytes);
std::uint64_t add_memory(std::size_t bytes, bool pinned, int device);
// False when there is no such memory. Notes a damaged guard.
bool remove_memory(std::uint64_t address);

// Null for a handle that is no stream. The default stream is that of the current context.
Stream* find_stream(void* handle);
void push_work(Stream& stream, std::function<void()> work);
void run_stream(Stream& stream);
void run_everything();

template <class T>
T* known(const std::set<std::unique_ptr<T>>& in, void* handle) {
  for (const auto& each : in) {
    if (each.get() == handle) return each.get();
  }
  return nullptr;
}
template <class T>
T* adopt(std::set<std::unique_ptr<T>>& in, T value) {
  auto made = std::make_unique<T>(std::move(value));
  T* handle = made.get();
  in.insert(std::move(made));
  return handle;
}
template <class T>
bool discard(std::set<std::unique_ptr<T>>& in, void* handle) {
  return std::erase_if(in, [handle](const auto& each) { return each.get() == handle; }) != 0;
}

}  // namespace fake_cuda
