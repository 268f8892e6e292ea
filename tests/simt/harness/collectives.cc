// Results of the warp's operations, as the CUDA C++ Programming Guide defines them ("Warp Vote", "Warp Match", "Warp Reduce"
// and "Warp Shuffle Functions").
#include <bit>

#include "tests/simt/harness/block.h"

namespace simt {
namespace {

// Lane that a shuffle reads; 32 or more: none, the lane's own value.
unsigned source_lane(const Thread& thread, unsigned width) {
  const unsigned lane = thread.indices.lane;
  const unsigned segment = lane & ~(width - 1);
  const std::uint32_t argument = thread.request.argument;
  switch (thread.request.op) {
    case Op::kShuffle:
      return segment + (argument & (width - 1));
    case Op::kShuffleUp:
      return argument > lane - segment ? 32 : lane - argument;
    case Op::kShuffleDown:
      return argument >= segment + width - lane ? 32 : lane + argument;
    default: {  // a later segment is out of reach, an earlier one is not
      const unsigned source = lane ^ (argument & 31U);
      return source >= segment + width ? 32 : source;
    }
  }
}

const char* shuffle(Thread* const* lanes, unsigned lane_count, std::uint32_t mask) {
  for (unsigned lane = 0; lane < lane_count; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    Thread& thread = *lanes[lane];
    const unsigned width = thread.request.width;
    if (width == 0 || width > 32 || !std::has_single_bit(width)) return explain(thread, "width is not a power of two up to 32");
    const unsigned source = source_lane(thread, width);
    if (source >= 32) {
      thread.result = thread.request.value;
      continue;
    }
    if ((mask >> source & 1U) == 0) return explain(thread, "reads a lane that the mask does not name");
    thread.result = lanes[source]->request.value;
  }
  return nullptr;
}

std::uint32_t combine(Op op, std::uint32_t a, std::uint32_t b) {
  const auto signed_a = static_cast<std::int32_t>(a);
  const auto signed_b = static_cast<std::int32_t>(b);
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kMinSigned:
      return signed_a < signed_b ? a : b;
    case Op::kMaxSigned:
      return signed_a > signed_b ? a : b;
    case Op::kMinUnsigned:
      return a < b ? a : b;
    case Op::kMaxUnsigned:
      return a > b ? a : b;
    case Op::kAnd:
      return a & b;
    case Op::kOr:
      return a | b;
    default:
      return a ^ b;
  }
}

// Lanes of mask whose value equals this one.
std::uint32_t equal_lanes(Thread* const* lanes, unsigned lane_count, std::uint32_t mask, std::uint64_t value) {
  std::uint32_t equal = 0;
  for (unsigned lane = 0; lane < lane_count; ++lane) {
    if ((mask >> lane & 1U) != 0 && lanes[lane]->request.value == value) equal |= 1U << lane;
  }
  return equal;
}

}  // namespace

const char* complete(Thread* const* lanes, unsigned lane_count, std::uint32_t mask) {
  const auto lowest = static_cast<unsigned>(std::countr_zero(mask));
  const Op op = lanes[lowest]->request.op;
  if (op >= Op::kShuffle && op <= Op::kShuffleXor) return shuffle(lanes, lane_count, mask);
  if (op == Op::kMatchAny) {
    for (unsigned lane = lowest; lane < lane_count; ++lane) {
      if ((mask >> lane & 1U) != 0) lanes[lane]->result = equal_lanes(lanes, lane_count, mask, lanes[lane]->request.value);
    }
    return nullptr;
  }
  std::uint64_t result = 0;
  if (op == Op::kMatchAll) {
    result = equal_lanes(lanes, lane_count, mask, lanes[lowest]->request.value) == mask ? mask : 0;
  } else if (op == Op::kBallot || op == Op::kAny || op == Op::kAll) {
    const std::uint32_t zero = equal_lanes(lanes, lane_count, mask, 0);
    const std::uint32_t ballot = mask & ~zero;
    if (op == Op::kBallot) result = ballot;
    if (op == Op::kAny) result = ballot != 0 ? 1 : 0;
    if (op == Op::kAll) result = ballot == mask ? 1 : 0;
  } else if (op != Op::kWarpBarrier) {
    auto total = static_cast<std::uint32_t>(lanes[lowest]->request.value);
    for (unsigned lane = lowest + 1; lane < lane_count; ++lane) {
      if ((mask >> lane & 1U) != 0) total = combine(op, total, static_cast<std::uint32_t>(lanes[lane]->request.value));
    }
    result = total;
  }
  for (unsigned lane = lowest; lane < lane_count; ++lane) {
    if ((mask >> lane & 1U) != 0) lanes[lane]->result = result;
  }
  return nullptr;
}

}  // namespace simt
