// Putting chunks together to records, and gathering scalars.
#pragma once

#include "cuda/device/kernels/found.cuh"

namespace scalewatch::device {

// A tensor of so few chunks is finished by a warp, others by a block.
inline constexpr U64 kWarpChunks = 32;

// Rounds to 24 significant bits, ties to even, and saturates instead of overflowing, as scalewatch::round_to_24_bits does.
SCALEWATCH_DEVICE double round_sum(double value) {
  constexpr U64 kMagnitude = ~U64{0} >> 1;
  constexpr U64 kInfinity = U64{0x7FF} << 52;
  constexpr U64 kLargest = 0x7FEFFFFFE0000000U;  // 0x1.FFFFFEp1023
  const U64 bits = double_to_bits(value);
  if ((bits & kInfinity) == kInfinity) return value;
  U32 dropped = 53 - 24;
  if ((bits & kInfinity) == 0) {  // a subnormal has fewer significant bits to begin with
    const U32 width = bit_width(bits & kMagnitude);
    dropped = width > 24 ? width - 24 : 0;
    if (dropped == 0) return value;
  }
  const U64 low = (U64{1} << dropped) - 1;
  const U64 rounded = (bits + (low >> 1) + (bits >> dropped & 1)) & ~low;
  if ((rounded & kInfinity) == kInfinity) return bits_to_double((bits & ~kMagnitude) | kLargest);
  return bits_to_double(rounded);
}

SCALEWATCH_DEVICE double clamp_double(double value) {
  constexpr double kMax = 0x1.FFFFFFFFFFFFFp1023;
  return value < -kMax ? -kMax : value > kMax ? kMax : value;
}

// Adds this thread's share of a tensor's partials: number `from` of them and every step-th after.
SCALEWATCH_DEVICE void add_partials(Found<U64>& found, U64 partials, U64 from, U64 count, U32 step) {
  SCALEWATCH_NO_UNROLL
  for (U64 i = from; i < count; i += step) {
    const U64 address = partials + i * sizeof(Partial);
    Words words[sizeof(Partial) / sizeof(Words)];
    SCALEWATCH_UNROLL
    for (U32 j = 0; j < sizeof(Partial) / sizeof(Words); ++j) words[j] = load_fresh(address + j * sizeof(Words));
    const auto double_at = [&](U32 index) {
      const U32* word = words[index / 2].word + index % 2 * 2;
      return bits_to_double(static_cast<U64>(word[1]) << 32 | word[0]);
    };
    found.sums[kSum] += double_at(0);
    found.sums[kSumSq] += double_at(1);
    found.sums[kHugeSum] += double_at(2);
    found.sums[kHugeSumSq] += double_at(3);
    found.counts[kNan] += words[2].word[0];
    found.counts[kPosInf] += words[2].word[1];
    found.counts[kNegInf] += words[2].word[2];
    found.counts[kZero] += words[2].word[3];
    found.counts[kSubnormal] += words[3].word[0];
    found.counts[kFlushed] += words[3].word[1];
    found.counts[kOver] += words[3].word[2];
    found.min = min_float(found.min, bits_to_float(words[3].word[3]));
    found.max = max_float(found.max, bits_to_float(words[4].word[0]));
    found.absmin_nonzero = min_float(found.absmin_nonzero, bits_to_float(words[4].word[1]));
  }
}

SCALEWATCH_DEVICE void store_record(U64 address, const Found<U64>& found, U64 numel) {
  const double huge_sum = clamp_double(found.sums[kHugeSum] * 0x1p100);
  const double huge_sum_sq = clamp_double(found.sums[kHugeSumSq] * 0x1p600 * 0x1p600);
  // + 0 makes one zero of both.
  store<DeviceRecord>(
      address,
      {numel, found.counts[kNan], found.counts[kPosInf], found.counts[kNegInf], found.counts[kZero], found.counts[kSubnormal],
       found.counts[kFlushed], found.counts[kOver], round_sum(clamp_double(found.sums[kSum] + huge_sum)),
       round_sum(clamp_double(found.sums[kSumSq] + huge_sum_sq)), found.min + 0.0F, found.max + 0.0F, found.absmin_nonzero, 0});
}

// Makes a record of a tensor's partials. For a warp; and for a block, whose caller has a barrier between two calls.
SCALEWATCH_DEVICE void finish_by_warp(U64 record, U64 partials, U64 count, U64 numel) {
  Found<U64> found;
  add_partials(found, partials, thread_index() % 32, count, 32);
  gather_warp<true>(found);
  if (thread_index() % 32 == 0) store_record(record, found, numel);
}
SCALEWATCH_DEVICE void finish_by_block(U64 record, U64 partials, U64 count, U64 numel) {
  Found<U64> found;
  add_partials(found, partials, thread_index(), count, kThreads);
  gather_block_begin<true>(found, 0);
  block_barrier();
  if (thread_index() >= 32) return;
  found = gather_block_end<true, U64>();
  if (thread_index() == 0) store_record(record, found, numel);
}

// Value of the ring's counter.
SCALEWATCH_DEVICE U64 sequence_of(const Results& results) {
  return results.counter != 0 ? load<U64>(results.counter) : 0;
}
// Address of the block that results go to now.
SCALEWATCH_DEVICE U64 block_of(const Results& results, U64 sequence) {
  return results.blocks + sequence % results.slots * results.block_bytes;
}
SCALEWATCH_DEVICE U64 record_of(const Results& results, U64 block, U64 index) {
  return block + results.records_offset + index * sizeof(DeviceRecord);
}

// True for all threads of the block that comes last of the launch; it sees what the others wrote.
SCALEWATCH_DEVICE bool is_last_block(U64 ticket) {
  bool& last = block_shared<bool>();
  device_fence();
  block_barrier();
  if (thread_index() == 0) last = take_ticket(ticket, block_count() - 1) == block_count() - 1;
  block_barrier();
  device_fence();
  return last;
}

SCALEWATCH_DEVICE double load_scalar(const ScalarSource& source) {
  if (source.address != 0) {
    switch (source.kind) {
      case kScalarFloat:
        return static_cast<double>(load<float>(source.address));
      case kScalarDouble:
        return load<double>(source.address);
      case kScalarInt32:
        return static_cast<double>(load<I32>(source.address));
      case kScalarInt64:
        return static_cast<double>(load<I64>(source.address));
      default:
        break;
    }
  }
  return bits_to_double(0x7FF8000000000000U);
}

// Gathers scalars into a result block. For a whole block of threads.
SCALEWATCH_DEVICE void gather_scalars(U64 sources, U32 count, U64 block) {
  SCALEWATCH_NO_UNROLL
  for (U32 i = thread_index(); i < count; i += kThreads) {
    const ScalarSource source = load<ScalarSource>(sources + U64{i} * sizeof(ScalarSource));
    store<double>(block + kScalarsOffset + U64{source.index} * sizeof(double), load_scalar(source));
  }
}

SCALEWATCH_DEVICE void finish_all(const FinishParams& params) {
  // Before the block's ticket, so before the last block may advance the counter.
  const U64 sequence = sequence_of(params.results);
  const U64 block = block_of(params.results, sequence);
  const auto finish = [&](U64 index, bool by_warp) {
    const U64 first = load<U64>(params.first_chunk + index * sizeof(U64));
    const U64 count = load<U64>(params.first_chunk + (index + 1) * sizeof(U64)) - first;
    if ((count <= kWarpChunks) != by_warp) return;
    const U64 record = record_of(params.results, block, params.first_record + index);
    const U64 partials = params.partials + first * sizeof(Partial);
    const U64 tensor = params.tensors + index * sizeof(TensorDesc);
    const bool known = element_bytes(load<TensorDesc>(tensor).dtype) != 0;
    const U64 numel = known ? load<TensorDesc>(tensor).numel : 0;
    if (by_warp) {
      finish_by_warp(record, partials, count, numel);
    } else {
      finish_by_block(record, partials, count, numel);
      block_barrier();
    }
  };
  const U64 warp = U64{block_index()} * kWarps + thread_index() / 32;
  SCALEWATCH_NO_UNROLL
  for (U64 i = warp; i < params.tensor_count; i += U64{block_count()} * kWarps) finish(i, true);
  SCALEWATCH_NO_UNROLL
  for (U64 i = block_index(); i < params.tensor_count; i += block_count()) finish(i, false);
  if (!is_last_block(params.ticket)) return;
  gather_scalars(params.scalars, params.scalar_count, block);
  if (thread_index() != 0) return;
  store<ResultHeader>(block, {sequence, kAbiVersion, params.tensor_count, {}});
  if (params.advance != 0 && params.results.counter != 0) store<U64>(params.results.counter, sequence + 1);
}

SCALEWATCH_DEVICE void gather_all(const GatherParams& params) {
  const U64 sequence = sequence_of(params.results);
  gather_scalars(params.scalars, params.scalar_count, block_of(params.results, sequence));
  block_barrier();
  if (thread_index() == 0 && params.advance != 0 && params.results.counter != 0) {
    store<U64>(params.results.counter, sequence + 1);
  }
}

}  // namespace scalewatch::device
