#include "tests/simt/harness/block.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace simt {
namespace {

constexpr unsigned kWarp = 32;

bool same_site(Site a, Site b) {
  return a.line() == b.line() && (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

char message[600];  // one launch at a time

const char* explain_two(const Thread& thread, const Thread& other, const char* what) {
  const Site there = other.request.site;
  char text[400];
  std::snprintf(text, sizeof text, "%s (thread %u: %s at %.120s:%u)", what, other.number, name_of(other.request.op),
                there.file_name(), there.line());
  return explain(thread, text);
}

}  // namespace

bool is_barrier(Op op) {
  return op <= Op::kBarrierOr;
}

const char* name_of(Op op) {
  static constexpr const char* kNames[] = {"__syncthreads",     "__syncthreads_count", "__syncthreads_and", "__syncthreads_or",
                                           "__syncwarp",        "__shfl_sync",         "__shfl_up_sync",    "__shfl_down_sync",
                                           "__shfl_xor_sync",   "__ballot_sync",       "__any_sync",        "__all_sync",
                                           "__match_any_sync",  "__match_all_sync",    "__reduce_add_sync", "__reduce_min_sync",
                                           "__reduce_max_sync", "__reduce_min_sync",   "__reduce_max_sync", "__reduce_and_sync",
                                           "__reduce_or_sync",  "__reduce_xor_sync",   "nothing yet"};
  return kNames[static_cast<unsigned>(op)];
}

const char* explain(const Thread& thread, const char* what) {
  const ThreadIndices& at = thread.indices;
  const Request& request = thread.request;
  std::snprintf(message, sizeof message, "block (%u,%u,%u) thread %u at %.120s:%u, %s: %s", at.block.x, at.block.y, at.block.z,
                thread.number, request.site.file_name(), request.site.line(), name_of(request.op), what);
  return message;
}

const char* Block::arrive(Thread& thread) {
  thread.state = State::kWaiting;
  return is_barrier(thread.request.op) ? arrive_at_barrier(thread) : arrive_at_warp(thread);
}

const char* Block::arrive_at_barrier(Thread& thread) {
  if (ended != 0) return explain(thread, "barrier after threads of the block have ended: they never reach it");
  ++at_barrier;
  if (at_barrier < threads.size()) return nullptr;
  const Request& first = threads[0]->request;
  std::uint64_t count = 0;
  for (Thread* const other : threads) {
    if (other->request.op != first.op || !same_site(other->request.site, first.site)) {
      return explain_two(*threads[0], *other, "threads of a block wait at different barriers");
    }
    count += other->request.value != 0 ? 1 : 0;
  }
  at_barrier = 0;
  for (Thread* const other : threads) {
    switch (first.op) {
      case Op::kBarrierAnd:
        other->result = count == threads.size() ? 1 : 0;
        break;
      case Op::kBarrierOr:
        other->result = count != 0 ? 1 : 0;
        break;
      default:
        other->result = count;
    }
  }
  release(threads.data(), static_cast<unsigned>(threads.size()), nullptr);
  return nullptr;
}

void Block::release(Thread* const* first, unsigned count, const std::uint32_t* mask) {
  for (unsigned k = 0; k < count; ++k) {
    const unsigned i = forward ? count - 1 - k : k;  // the last one goes on first
    if (mask != nullptr && (*mask >> i & 1U) == 0) continue;
    first[i]->state = State::kReady;
    ready.push_back(first[i]->number);
  }
}

const char* Block::arrive_at_warp(Thread& thread) {
  const std::uint32_t mask = thread.request.mask;
  const unsigned first = thread.number / kWarp * kWarp;
  const auto lane_count = static_cast<unsigned>(std::min<std::size_t>(kWarp, threads.size() - first));
  Thread* const* const lanes = threads.data() + first;
  if ((mask >> thread.indices.lane & 1U) == 0) return explain(thread, "the calling lane is not in its own mask");
  if (lane_count < kWarp && (mask >> lane_count) != 0) return explain(thread, "the mask names lanes that do not exist");
  Warp& warp = warps[first / kWarp];
  ++warp.waiting;
  // Most arrivals see at once that somebody is missing.
  if (warp.ended == 0 && warp.waiting < static_cast<unsigned>(std::popcount(mask))) return nullptr;
  for (unsigned lane = 0; lane < lane_count; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    const Thread& other = *lanes[lane];
    if (other.state == State::kEnded) return explain(thread, "the mask names a lane that has ended");
    if (other.state != State::kWaiting) return nullptr;  // not there yet
    if (is_barrier(other.request.op)) return nullptr;    // will never come: a deadlock, or comes after the barrier
  }
  const Request& request = thread.request;
  for (unsigned lane = 0; lane < lane_count; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    const Request& other = lanes[lane]->request;
    if (other.op != request.op || other.width != request.width || !same_site(other.site, request.site)) {
      return explain_two(thread, *lanes[lane], "lanes of one mask meet in different operations");
    }
    if (other.mask != mask) return explain_two(thread, *lanes[lane], "lanes meet with different masks");
  }
  if (const char* wrong = complete(lanes, lane_count, mask)) return wrong;
  warp.waiting -= static_cast<unsigned>(std::popcount(mask));
  release(lanes, lane_count, &mask);
  return nullptr;
}

const char* Block::leave(Thread& thread) {
  thread.state = State::kEnded;
  ++ended;
  ++warps[thread.number / kWarp].ended;
  if (at_barrier != 0) {
    for (const Thread* const other : threads) {
      if (other->state == State::kWaiting && is_barrier(other->request.op)) {
        return explain(*other, "a thread of the block ended without reaching this barrier");
      }
    }
  }
  const unsigned first = thread.number / kWarp * kWarp;
  for (std::size_t i = first; i < std::min<std::size_t>(first + kWarp, threads.size()); ++i) {
    const Thread& other = *threads[i];
    if (other.state == State::kWaiting && !is_barrier(other.request.op) &&
        (other.request.mask >> thread.indices.lane & 1U) != 0) {
      return explain(other, "a lane of the mask ended without taking part");
    }
  }
  return nullptr;
}

const char* Block::deadlock() const {
  const Thread* lonely = nullptr;
  const Thread* other = nullptr;
  for (const Thread* const thread : threads) {
    if (thread->state != State::kWaiting) continue;
    if (lonely == nullptr || (is_barrier(lonely->request.op) && !is_barrier(thread->request.op))) lonely = thread;
  }
  for (const Thread* const thread : threads) {
    if (thread->state == State::kWaiting && !same_site(thread->request.site, lonely->request.site)) other = thread;
  }
  if (other == nullptr) return explain(*lonely, "waits for threads that never come");
  return explain_two(*lonely, *other, "deadlock: threads wait for each other at different places");
}

}  // namespace simt
