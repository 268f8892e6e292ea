#include "tests/fake_cuda/state.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/simt/harness/memory.h"

namespace fake_cuda {
namespace {

void set_up(State& s, std::vector<Architecture> devices) {
  s.devices = std::move(devices);
  s.contexts.clear();
  s.legacy.clear();
  for (std::size_t i = 0; i < s.devices.size(); ++i) {
    s.contexts.push_back(std::make_unique<Context>(Context{static_cast<int>(i)}));
    s.legacy.push_back(std::make_unique<Stream>());
    s.legacy.back()->device = static_cast<int>(i);
  }
}

}  // namespace

// Never destroyed: clients may call until the very end of the process.
State& state() {
  static State* const the_state = [] {
    auto* made = new State;
    set_up(*made, {{9, 0}, {9, 0}});
    made->automatic = std::getenv("SCALEWATCH_FAKE_CUDA_AUTOMATIC") != nullptr;
    if (const char* fail = std::getenv("SCALEWATCH_FAKE_CUDA_FAIL")) {
      std::istringstream words(fail);
      std::string name, status, skip;
      std::getline(words, name, ':'), std::getline(words, status, ':'), std::getline(words, skip);
      made->fail_after[name] = {std::stoi(status), std::stoi(skip)};
    }
    return made;
  }();
  return *the_state;
}

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

Memory* find_memory(std::uint64_t address, std::size_t bytes) {
  State& s = state();
  auto after = s.memory.upper_bound(address);
  if (after == s.memory.begin()) return nullptr;
  auto& [begin, memory] = *std::prev(after);
  return address + bytes <= begin + memory.bytes ? &memory : nullptr;
}

std::uint64_t add_memory(std::size_t bytes, bool pinned, int device) {
  const auto address = reinterpret_cast<std::uint64_t>(simt::allocate(bytes));
  state().memory.emplace(address, Memory{bytes, pinned, device});
  return address;
}

bool remove_memory(std::uint64_t address) {
  State& s = state();
  if (s.memory.erase(address) == 0) return false;
  if (const std::string wrong = simt::release(reinterpret_cast<void*>(address)); !wrong.empty()) s.note(wrong);
  return true;
}

Stream* find_stream(void* handle) {
  State& s = state();
  if (handle == nullptr) {
    const auto& stack = context_stack();
    if (stack.empty() || stack.back() == nullptr) return nullptr;
    return s.legacy[static_cast<std::size_t>(stack.back()->device)].get();
  }
  for (const auto& legacy : s.legacy) {
    if (legacy.get() == handle) return legacy.get();
  }
  return known(s.streams, handle);
}

void push_work(Stream& stream, std::function<void()> work) {
  (stream.capturing ? stream.captured.emplace_back() : stream.work.emplace_back()) = std::move(work);
}

void run_stream(Stream& stream) {
  while (!stream.work.empty()) {
    const std::function<void()> work = std::move(stream.work.front());
    stream.work.pop_front();
    state().clock_ms += 0.001;
    if (state().failing == 0) work();
  }
}

void run_everything() {
  State& s = state();
  for (const auto& legacy : s.legacy) run_stream(*legacy);
  for (const auto& stream : s.streams) run_stream(*stream);
}

// ---- what a test does -----------------------------------------------------------------------------------------------

using Lock = std::lock_guard<std::recursive_mutex>;

void reset() {
  State& s = state();
  const Lock lock(s.mutex);
  s.streams.clear(), s.modules.clear(), s.functions.clear(), s.events.clear();
  while (!s.memory.empty()) remove_memory(s.memory.begin()->first);
  s.graphs.clear(), s.calls.clear(), s.misuse.clear(), s.fail_name.clear(), s.fail_after.clear();
  s.fail_number.reset();
  s.call_number = 0;
  s.version = 12040;
  s.init_status = s.failing = 0;
  s.automatic = s.sticky = false;  // initialised it stays: a process does that once
  s.memory_limit = SIZE_MAX;
  s.memory_taken = 0;
  context_stack().clear();
  set_up(s, {{9, 0}, {9, 0}});
}

void set_devices(std::vector<Architecture> devices) {
  const Lock lock(state().mutex);
  set_up(state(), std::move(devices));
}
void set_driver_version(int version) {
  state().version = version;
}
void set_init_status(int status) {
  state().init_status = status;
}
void set_automatic(bool automatic) {
  const Lock lock(state().mutex);
  state().automatic = automatic;
}
void set_memory_limit(std::size_t bytes) {
  const Lock lock(state().mutex);
  state().memory_limit = bytes;
}

void fail_call(std::uint64_t number, int status, bool sticky) {
  const Lock lock(state().mutex);
  state().fail_number = {number, status};
  state().sticky = sticky;
}
void fail_next(const std::string& name, int status, bool sticky) {
  const Lock lock(state().mutex);
  state().fail_name[name] = status;
  state().sticky = sticky;
}
void fail_all(int status) {
  const Lock lock(state().mutex);
  state().failing = status == 0 ? 0 : status;
}

std::vector<Call> calls() {
  const Lock lock(state().mutex);
  return state().calls;
}
std::uint64_t call_count() {
  const Lock lock(state().mutex);
  return state().call_number;
}
void forget_calls() {
  const Lock lock(state().mutex);
  state().calls.clear();
}
std::vector<std::string> misuse() {
  const Lock lock(state().mutex);
  return state().misuse;
}
std::size_t allocations() {
  State& s = state();
  const Lock lock(s.mutex);
  std::size_t count = s.memory.size() + s.modules.size() + s.events.size();
  for (const auto& context : s.contexts) count += static_cast<std::size_t>(context->retained);
  return count;
}

void* make_stream(int device) {
  const Lock lock(state().mutex);
  Stream made;
  made.device = device;
  return adopt(state().streams, std::move(made));
}
void destroy_stream(void* stream) {
  const Lock lock(state().mutex);
  if (Stream* found = known(state().streams, stream)) run_stream(*found);
  discard(state().streams, stream);
}
std::uint64_t make_memory(int device, std::size_t bytes) {
  const Lock lock(state().mutex);
  return add_memory(bytes, false, device);
}
void free_memory(std::uint64_t pointer) {
  const Lock lock(state().mutex);
  remove_memory(pointer);
}
void make_current(int device) {
  const Lock lock(state().mutex);
  context_stack().clear();
  if (device >= 0) context_stack().push_back(state().contexts[static_cast<std::size_t>(device)].get());
}
void run(void* stream) {
  const Lock lock(state().mutex);
  if (stream == nullptr) {
    for (const auto& legacy : state().legacy) run_stream(*legacy);
  } else if (Stream* found = find_stream(stream)) {
    run_stream(*found);
  }
}
void run_all() {
  const Lock lock(state().mutex);
  run_everything();
}
void enqueue(void* stream, std::function<void()> work) {
  const Lock lock(state().mutex);
  if (Stream* found = find_stream(stream)) push_work(*found, std::move(work));
}
void begin_capture(void* stream) {
  const Lock lock(state().mutex);
  if (Stream* found = find_stream(stream)) found->capturing = true;
}
int end_capture(void* stream) {
  const Lock lock(state().mutex);
  Stream* found = find_stream(stream);
  if (found == nullptr) return -1;
  found->capturing = false;
  state().graphs.push_back(std::move(found->captured));
  found->captured.clear();
  return static_cast<int>(state().graphs.size()) - 1;
}
void replay(int graph, void* stream) {
  const Lock lock(state().mutex);
  Stream* found = find_stream(stream);
  if (found == nullptr) return;
  for (const auto& work : state().graphs[static_cast<std::size_t>(graph)]) push_work(*found, work);
}

}  // namespace fake_cuda
