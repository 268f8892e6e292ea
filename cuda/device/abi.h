// What the host and the CUDA kernels share: descriptors, scratch, results, parameters, and how each kernel is launched.
//
// Compiles with g++ and with NVRTC, which has no standard library. All structs have the same layout on both sides; addresses
// are 64-bit integers. Everything that a kernel takes besides its parameters lies in device memory and may be updated
// asynchronously on the kernel's stream. Every kernel takes one struct by value, can be captured in a CUDA graph, and is
// launched with a one-dimensional grid and no dynamic shared memory.
//
// An attempt: scalewatch_measure writes one Partial a chunk, scalewatch_finish merges them into one DeviceRecord a tensor and
// gathers the scaler's scalars into the same result block, then one asynchronous copy brings the block to the host. A transient
// tensor: scalewatch_measure_one does both for one tensor in one launch.
#pragma once

namespace scalewatch::device {

using U8 = unsigned char;
using U16 = unsigned short;
using U32 = unsigned int;
using U64 = unsigned long long;
using I32 = int;
using I64 = long long;
static_assert(sizeof(U8) == 1 && sizeof(U16) == 2 && sizeof(U32) == 4 && sizeof(U64) == 8);

inline constexpr U32 kAbiVersion = 1;

// Element types, by the numbers of scalewatch::DType.
enum : U8 { kUnspecified = 0, kFp64 = 1, kFp32 = 2, kFp16 = 3, kBf16 = 4, kE4m3fn = 5, kE5m2 = 6 };

inline constexpr U32 kMaxDims = 8;
inline constexpr U64 kMaxNumel = U64{1} << 33;
inline constexpr U32 kMaxTensors = 1U << 20;  // of one launch

// A tensor to measure. 40 bytes.
struct TensorDesc {
  U64 data;           // address of the first element; any alignment
  U64 numel;          // 0 ... kMaxNumel
  U64 scale_address;  // of a float that the values were multiplied by; 0: `scale` is it
  double scale;       // used when scale_address is 0. A scale that is not finite and positive counts as 1
  U32 strided;        // 0: contiguous; otherwise 1 + index in the table of StridedDesc
  U8 dtype;           // of the elements; kUnspecified or an unknown one gives an empty record
  U8 target;          // format that subnormal, flushed and over are counted against; kUnspecified: the three stay 0
  U8 chunk_shift;     // log2 of the elements of a chunk: chunk_shift(dtype, numel)
  U8 reserved;
};
static_assert(sizeof(TensorDesc) == 40);

// Shape of a strided tensor, outermost dimension first. The product of the sizes is the tensor's numel. 136 bytes.
// Elements are taken with the last dimension fastest, so the host orders dimensions by falling stride and joins what it can;
// a tensor that becomes contiguous this way is described as contiguous.
struct StridedDesc {
  U64 sizes[kMaxDims];    // at least 1 each, up to dims
  I64 strides[kMaxDims];  // in elements; may be 0 or negative
  U32 dims;               // 1 ... kMaxDims
  U32 reserved;
};
static_assert(sizeof(StridedDesc) == 136);

// Chunks. Each tensor is cut into chunks of 2^chunk_shift elements (the last one may be shorter). A chunk is measured by one
// block, and the sums of a tensor's chunks are merged by a fixed tree, so results do not depend on the grid. A tensor of 0
// elements or of unknown dtype has no chunk.

inline constexpr U64 kMaxChunksPerTensor = 16384;  // from there on chunks grow instead

// Bytes of an element; 0 when unknown.
constexpr U32 element_bytes(U8 dtype) {
  return dtype == kFp64                       ? 8
         : dtype == kFp32                     ? 4
         : dtype == kFp16 || dtype == kBf16   ? 2
         : dtype == kE4m3fn || dtype == kE5m2 ? 1
                                              : 0;
}

// Chunks of at least 64 KiB (fp8: 32 KiB).
constexpr U8 chunk_shift(U8 dtype, U64 numel) {
  U8 shift = dtype == kFp64 ? 13 : dtype == kFp32 ? 14 : 15;
  while ((numel >> shift) >= kMaxChunksPerTensor) ++shift;
  return shift;
}

// Chunks of a tensor whose chunk_shift is set.
constexpr U64 chunk_count(const TensorDesc& tensor) {
  if (element_bytes(tensor.dtype) == 0) return 0;
  return (tensor.numel + (U64{1} << tensor.chunk_shift) - 1) >> tensor.chunk_shift;
}

// The host makes first_chunk[0 ... tensors]: first_chunk[0] = 0, first_chunk[i + 1] = first_chunk[i] + chunk_count(tensor i).
// Scratch of a launch: first_chunk[tensors] Partials; fewer than 2^31, which would be more memory than a GPU has to spare.

// What one chunk gave. 80 bytes.
struct Partial {
  double sum;  // of finite elements; fp64 elements of huge magnitude apart, scaled down
  double sum_sq;
  double huge_sum;     // times 2^100
  double huge_sum_sq;  // times 2^1200
  U32 nan;
  U32 pos_inf;
  U32 neg_inf;
  U32 zero;
  U32 subnormal;
  U32 flushed;
  U32 over;
  float min;             // NaN when no element is finite; a zero may have either sign
  float max;             // the same
  float absmin_nonzero;  // NaN when no finite element is non-zero
  U32 reserved[2];
};
static_assert(sizeof(Partial) == 80);

// scalewatch::Record, field by field and to the same rules: sums rounded to 24 significant bits, NaN = absent. 96 bytes.
struct DeviceRecord {
  U64 numel;
  U64 nan;
  U64 pos_inf;
  U64 neg_inf;
  U64 zero;
  U64 subnormal;
  U64 flushed;
  U64 over;
  double sum;
  double sum_sq;
  float min;
  float max;
  float absmin_nonzero;
  U32 reserved;  // 0
};
static_assert(sizeof(DeviceRecord) == 96);

// A scalar on the device that travels along. 16 bytes.
enum : U32 { kScalarFloat = 0, kScalarDouble = 1, kScalarInt32 = 2, kScalarInt64 = 3 };
struct ScalarSource {
  U64 address;  // 0: the result is NaN
  U32 kind;     // kScalar...; an unknown one gives NaN
  U32 index;    // of the result among the block's scalars
};
static_assert(sizeof(ScalarSource) == 16);

// A result block: header, then the scalars as doubles, then the records. 64 bytes.
struct ResultHeader {
  U64 sequence;  // value of the ring's counter for this block, 0 without one
  U32 version;   // kAbiVersion
  U32 records;   // written by scalewatch_finish, from Results::first_record on
  U32 reserved[12];
};
static_assert(sizeof(ResultHeader) == 64);

inline constexpr U32 kMaxScalars = 256;
inline constexpr U64 kScalarsOffset = sizeof(ResultHeader);

// Bytes from a block's begin to its records, and of a whole block.
constexpr U64 records_offset(U32 scalars) {
  return kScalarsOffset + (U64{scalars} * sizeof(double) + 31) / 32 * 32;
}
constexpr U64 result_block_bytes(U32 scalars, U32 records) {
  return records_offset(scalars) + U64{records} * sizeof(DeviceRecord);
}

// Where results go: block number *counter % slots of a ring. Under a CUDA graph the counter, not the host, tells attempts
// apart; without one (counter = 0) it is block 0. The counter is 64-bit; the last kernel of an attempt advances it.
struct Results {
  U64 blocks;          // address of block 0, aligned to 16 bytes
  U64 block_bytes;     // distance of two blocks, a multiple of 16
  U64 records_offset;  // records_offset(scalars)
  U64 counter;         // address of a U64, or 0
  U32 slots;           // at least 1
  U32 reserved;
};
static_assert(sizeof(Results) == 40);

// Tickets are U32 in device memory, 0 before the first launch; a kernel leaves them at 0. Launches that may run at the same
// time need tickets and scratch of their own.

// scalewatch_measure: all chunks of all tensors. Grid: measure_grid(first_chunk[tensors], processors) blocks.
struct MeasureParams {
  U64 tensors;      // TensorDesc[tensor_count]
  U64 first_chunk;  // U64[tensor_count + 1]
  U64 strided;      // StridedDesc[], or 0 when no tensor needs one
  U64 partials;     // Partial[first_chunk[tensor_count]], aligned to 16 bytes
  U32 tensor_count;
  U32 reserved;
};
static_assert(sizeof(MeasureParams) == 40);

// scalewatch_finish: after scalewatch_measure on the same stream. Record i goes to first_record + i. Its last block gathers the
// scalars, writes the header and, if told so, advances the counter. Grid: finish_grid(tensor_count, processors) blocks, also
// for no tensors at all.
struct FinishParams {
  U64 tensors;
  U64 first_chunk;
  U64 partials;
  U64 scalars;  // ScalarSource[scalar_count], or 0
  U64 ticket;   // address
  Results results;
  U32 tensor_count;
  U32 scalar_count;  // up to kMaxScalars
  U32 first_record;
  U32 advance;  // 1: this is the attempt's last kernel
};
static_assert(sizeof(FinishParams) == 96);

// scalewatch_measure_one: one tensor, whole, into one record. Grid: one_grid(chunk_count(tensor), processors) blocks, also for
// an empty tensor.
struct MeasureOneParams {
  TensorDesc tensor;  // tensor.strided: 0 or 1; 1: `shape` is it
  U64 partials;       // Partial[chunk_count(tensor)], aligned to 16 bytes
  U64 ticket;         // address
  Results results;
  U32 record;  // which record of the block
  U32 reserved;
  StridedDesc shape;
};
static_assert(sizeof(MeasureOneParams) == 240);

// scalewatch_gather: scalars alone, at another moment than the finish. Grid: 1 block.
struct GatherParams {
  U64 scalars;  // ScalarSource[scalar_count]
  Results results;
  U32 scalar_count;
  U32 advance;  // 1: this is the attempt's last kernel
};
static_assert(sizeof(GatherParams) == 56);

// scalewatch_exponents: adds to counts[tensor_count][kExponentBins] (the bins of scalewatch::ExponentCounts), which the host
// sets to 0 before. Grid: measure_grid(first_chunk[tensor_count], processors) blocks.
inline constexpr U32 kExponentBins = 277;
struct ExponentsParams {
  U64 tensors;
  U64 first_chunk;
  U64 strided;
  U64 counts;  // U64[tensor_count * kExponentBins]
  U32 tensor_count;
  U32 reserved;
};
static_assert(sizeof(ExponentsParams) == 40);

inline constexpr char kMeasureName[] = "scalewatch_measure";
inline constexpr char kFinishName[] = "scalewatch_finish";
inline constexpr char kMeasureOneName[] = "scalewatch_measure_one";
inline constexpr char kGatherName[] = "scalewatch_gather";
inline constexpr char kExponentsName[] = "scalewatch_exponents";

// Threads of a block, of every kernel.
inline constexpr U32 kThreads = 256;
inline constexpr U32 kWarps = kThreads / 32;
// Blocks of scalewatch_measure that a multiprocessor holds at once.
inline constexpr U32 kBlocksPerProcessor = 4;

constexpr U32 grid_up_to(U64 wanted, U64 limit) {
  const U64 blocks = wanted < limit ? wanted : limit;
  return blocks == 0 ? 1U : static_cast<U32>(blocks);
}
constexpr U32 measure_grid(U64 chunks, U32 processors) {
  return grid_up_to(chunks, U64{processors} * kBlocksPerProcessor);
}
constexpr U32 finish_grid(U64 tensors, U32 processors) {
  return grid_up_to(tensors, U64{processors} * kBlocksPerProcessor);
}
constexpr U32 one_grid(U64 chunks, U32 processors) {
  return grid_up_to(chunks, U64{processors} * kBlocksPerProcessor);
}

}  // namespace scalewatch::device
