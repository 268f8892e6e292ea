// The threads of a running block and how they meet. Internal to the harness.
#pragma once

#include <array>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/simt/harness/runtime.h"

namespace simt {

// What a waiting thread asked for.
struct Request {
  Op op = Op::kNothing;
  std::uint32_t mask = 0;
  std::uint64_t value = 0;
  std::uint32_t argument = 0;
  std::uint32_t width = 32;
  Site site;
};

enum class State : std::uint8_t { kReady, kWaiting, kEnded };

struct Block;

struct Thread {
  ThreadIndices indices;
  unsigned number = 0;  // in the block, x fastest
  State state = State::kEnded;
  Request request;
  std::uint64_t result = 0;
  Block* block = nullptr;
  boost::context::fiber fiber;  // suspended, while another runs
};

// A warp's lanes are waiting[lane]: threads first .. first + 31 of the block.
struct Block {
  std::vector<Thread*> threads;
  std::vector<unsigned> ready;  // numbers of threads that can go on, the next one last
  bool forward = true;          // threads that wait together go on in rising order, else in falling order
  unsigned ended = 0;
  unsigned at_barrier = 0;
  struct Warp {
    unsigned waiting = 0;  // lanes at one of the warp's meetings
    unsigned ended = 0;
  };
  std::array<Warp, 32> warps;
  std::vector<std::byte> static_shared;  // while another block has the real place
  std::byte* dynamic = nullptr;

  // Notes that a thread waits. Completes the meeting if it was the last. Returns what is wrong; null: nothing.
  // The text lives until the next call.
  const char* arrive(Thread& thread);
  // A thread has ended: nobody may wait for it.
  const char* leave(Thread& thread);
  // Every thread waits or has ended, and none can go on: why.
  const char* deadlock() const;

 private:
  const char* arrive_at_barrier(Thread& thread);
  const char* arrive_at_warp(Thread& thread);
  // Those of `count` threads that are in mask (null: all) can go on.
  void release(Thread* const* first, unsigned count, const std::uint32_t* mask);
};

[[nodiscard]] bool is_barrier(Op op);
[[nodiscard]] const char* name_of(Op op);

// Computes the results of the lanes in mask, all of which wait for the same operation. Returns what is wrong; null: nothing.
const char* complete(Thread* const* lanes, unsigned lane_count, std::uint32_t mask);

// Writes a message about a thread into a buffer that lives until the next call.
const char* explain(const Thread& thread, const char* what);

}  // namespace simt
