#include "tests/simt/harness/machine.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace simt {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxResident = 8;
constexpr unsigned kWarp = 32;

}  // namespace

const ThreadIndices* current_indices = nullptr;

void Machine::body(boost::context::fiber&& main, Worker& worker) {
  main_ = std::move(main);
  while (true) {
    kernel_->call(params_);
    if (const char* wrong = worker.thread.block->leave(worker.thread)) break_off(wrong);
    suspend();
  }
}

void Machine::prepare(unsigned resident, unsigned threads) {
  while (workers_.size() < std::size_t{resident} * threads) workers_.push_back(std::make_unique<Worker>());
  while (slots_.size() < resident) slots_.push_back(std::make_unique<Slot>());
  for (unsigned s = 0; s < resident; ++s) {
    Slot& slot = *slots_[s];
    slot.busy = false;
    slot.block = Block{};
    slot.dynamic_memory = std::make_unique<std::byte[]>(dynamic_bytes_ + 1024);
    const auto at = reinterpret_cast<std::uintptr_t>(slot.dynamic_memory.get());
    slot.block.dynamic = slot.dynamic_memory.get() + (1024 - at % 1024) % 1024;
    slot.block.static_shared.resize(storage_.bytes);
    for (unsigned i = 0; i < threads; ++i) {
      Worker& worker = *workers_[std::size_t{s} * threads + i];
      slot.block.threads.push_back(&worker.thread);
      worker.thread.block = &slot.block;
      worker.thread.number = i;
      if (!worker.thread.fiber) {
        worker.thread.fiber = boost::context::fiber(std::allocator_arg, worker.stack.whole(), Keeper{},
                                                    [this, &worker](boost::context::fiber&& main) {
                                                      body(std::move(main), worker);
                                                      return boost::context::fiber{};
                                                    });
      }
    }
  }
}

void Machine::start(Slot& slot, std::uint64_t block_number) {
  Block& block = slot.block;
  slot.busy = true;
  block.ended = 0;
  block.at_barrier = 0;
  block.warps.fill({});
  block.ready.clear();
  const auto poison = [this](std::byte* to, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(options_.shared_poison >> (8 * (i % 4)));
  };
  poison(block.dynamic, dynamic_bytes_);
  poison(&block == active_ ? storage_.data : block.static_shared.data(), storage_.bytes);
  const Dim3 at{static_cast<unsigned>(block_number % grid_.x), static_cast<unsigned>(block_number / grid_.x % grid_.y),
                static_cast<unsigned>(block_number / grid_.x / grid_.y)};
  for (Thread* const thread : block.threads) {
    const unsigned n = thread->number;
    thread->indices = {
        {n % block_dim_.x, n / block_dim_.x % block_dim_.y, n / block_dim_.x / block_dim_.y}, at, block_dim_, grid_, n % kWarp};
    thread->state = State::kReady;
    thread->request = Request{};
    block.ready.push_back(n);
  }
  block.forward = options_.threads != Order::kReverse;
  if (block.forward) std::reverse(block.ready.begin(), block.ready.end());
}

// The block's static shared memory comes into its place.
void Machine::activate(Block& block) {
  if (active_ == &block) return;
  if (storage_.bytes != 0) {
    if (active_ != nullptr) std::memcpy(active_->static_shared.data(), storage_.data, storage_.bytes);
    std::memcpy(storage_.data, block.static_shared.data(), storage_.bytes);
  }
  active_ = &block;
}

void Machine::resume(Thread& thread) {
  running_ = &thread;
  current_indices = &thread.indices;
  thread.fiber = std::move(thread.fiber).resume();
  running_ = nullptr;
}

// Back to the one who resumed this thread.
void Machine::suspend() {
  main_ = std::move(main_).resume();
}

// Lets the block's threads go on until it ends, or another block shall have its turn.
void Machine::turn(Slot& slot) {
  Block& block = slot.block;
  activate(block);
  const bool alone = options_.resident_blocks <= 1;
  const std::uint64_t until = steps_ + (alone ? options_.max_steps : pick(4 * block.threads.size(), Order::kShuffled));
  while (!block.ready.empty() && fault_.empty() && steps_ <= until) {
    const std::size_t at =
        options_.threads == Order::kShuffled ? pick(block.ready.size(), Order::kShuffled) : block.ready.size() - 1;
    const unsigned number = block.ready[at];
    block.ready[at] = block.ready.back();
    block.ready.pop_back();
    resume(*block.threads[number]);
  }
  if (!fault_.empty()) return;
  if (block.ended == block.threads.size()) {
    slot.busy = false;
  } else if (block.ready.empty()) {
    fault_ = block.deadlock();
  }
}

// Fibers that are in the middle of a kernel can't be used again: their stacks get new ones.
void Machine::abandon() {
  for (const auto& worker : workers_) {
    // A fiber that is destroyed is unwound; this one's frames, even a signal handler's, simply cease to be.
    if (worker->thread.fiber) new boost::context::fiber(std::move(worker->thread.fiber));
  }
}

Result Machine::run(const Kernel& kernel, Dim3 grid, Dim3 block, std::size_t shared_bytes, void** params,
                    const Options& options) {
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (blocks == 0 || threads == 0 || threads > kMaxThreads) return {"grid or block of no or too many threads", 0};
  os_thread_ = pthread_self();
  kernel_ = &kernel;
  params_ = params;
  grid_ = grid;
  block_dim_ = block;
  options_ = options;
  dynamic_bytes_ = shared_bytes;
  storage_ = shared_storage_of(kernel);
  random_.seed(options.seed);
  steps_ = 0;
  fault_.clear();
  active_ = nullptr;
  region_ = regions().end();
  ++launch_;
  const auto resident = static_cast<unsigned>(
      std::clamp<std::uint64_t>(options.resident_blocks, 1, std::min<std::uint64_t>(blocks, kMaxResident)));
  prepare(resident, static_cast<unsigned>(threads));

  std::vector<std::uint64_t> order = options.only_blocks;
  if (order.empty()) {
    order.resize(blocks);
    std::iota(order.begin(), order.end(), 0);
  }
  if (options.blocks == Order::kReverse) std::reverse(order.begin(), order.end());
  if (options.blocks == Order::kShuffled) std::shuffle(order.begin(), order.end(), random_);

  std::size_t next = 0;
  while (fault_.empty()) {
    std::vector<Slot*> busy;
    for (unsigned s = 0; s < resident; ++s) {
      Slot& slot = *slots_[s];
      if (!slot.busy && next < order.size()) start(slot, order[next++]);
      if (slot.busy) busy.push_back(&slot);
    }
    if (busy.empty()) break;
    turn(*busy[pick(busy.size(), resident > 1 ? Order::kShuffled : Order::kForward)]);
  }
  current_indices = nullptr;
  if (!fault_.empty()) abandon();
  return {fault_, steps_};
}

std::uint64_t Machine::wait(const Request& request) {
  Thread& thread = *running_;
  thread.request = request;
  if (++steps_ > options_.max_steps) break_off(explain(thread, "the launch makes no progress"));
  if (const char* wrong = active_->arrive(thread)) break_off(wrong);
  suspend();
  return thread.result;
}

void Machine::step() {
  Thread& thread = *running_;
  if (++steps_ > options_.max_steps) break_off(explain(thread, "the launch makes no progress"));
  if (options_.threads != Order::kShuffled || pick(2, Order::kShuffled) == 0) return;
  active_->ready.push_back(thread.number);
  suspend();
}

void Machine::break_off(const char* text) {
  fault_ = text;
  while (true) suspend();  // nobody resumes it
}

const char* Machine::find_fault(const void* address, std::size_t bytes, std::size_t alignment, Access access) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at % alignment != 0) return "misaligned access";
  const auto within = [&](const std::byte* start, std::size_t size) {
    const auto from = reinterpret_cast<std::uintptr_t>(start);
    return at >= from && bytes <= size && at - from <= size - bytes;
  };
  if (within(storage_.data, storage_.bytes) || within(active_->dynamic, dynamic_bytes_)) return nullptr;
  if (region_ == regions().end() || at < region_->first || at - region_->first >= region_->second.bytes) {
    region_ = regions().upper_bound(at);
    if (region_ != regions().begin()) --region_;
  }
  if (region_ != regions().end() && within(reinterpret_cast<const std::byte*>(region_->first), region_->second.bytes)) {
    const Dim3 block = running_->indices.block;
    const std::uint32_t number = block.x + grid_.x * (block.y + grid_.y * block.z);
    return note_access(region_->second, at - region_->first, bytes, access, launch_, number);
  }
  const char here = 0;  // a thread's own variables
  const auto frame = reinterpret_cast<std::uintptr_t>(&here);
  if (at > frame && at - frame < kStackBytes) return nullptr;
  return "access out of bounds";
}

}  // namespace simt
