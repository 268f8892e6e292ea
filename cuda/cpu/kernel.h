// What the SIMD kernel takes and gives. Internal to cuda/cpu.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/cpu/cuts.h"
#include "cuda/record/record.h"

namespace scalewatch::cpu {

// Elements are added in this many chains, side by side: the order of additions is the same however wide the vectors are.
inline constexpr std::size_t kChains = 32;
// A row is one element of each chain, a group so many rows: in a group a chain is added up in float.
inline constexpr std::size_t kGroupRows = 8;
inline constexpr std::size_t kGroup = kChains * kGroupRows;
// Elements looked at together: small enough to stay in the first-level cache for a second look.
inline constexpr std::size_t kBlockGroups = 8;
inline constexpr std::size_t kBlock = kBlockGroups * kGroup;

// Running state of one measurement. Extremes are bit patterns: see Extremes.
struct State {
  std::uint64_t numel = 0;
  std::uint64_t nan = 0;
  std::uint64_t pos_inf = 0;
  std::uint64_t neg_inf = 0;
  std::uint64_t zero = 0;
  std::uint64_t subnormal = 0;
  std::uint64_t flushed = 0;
  std::uint64_t over = 0;

  // Over the bits of finite elements. As sign and magnitude, the largest signed pattern is the largest element unless all are
  // negative, and the largest unsigned pattern is the smallest element unless none is negative; the smallest magnitude is the
  // answer in those cases.
  std::int64_t signed_max = INT64_MIN;
  std::uint64_t unsigned_max = 0;
  std::int64_t magnitude_min = INT64_MAX;
  std::uint64_t absmin_less_1 = UINT64_MAX;  // smallest (magnitude bits - 1): zero wraps to the largest

  double sum[kChains] = {};
  double sum_sq[kChains] = {};
  // fp64 elements whose sums could leave double's range, scaled down.
  double huge_sum = 0;
  double huge_sum_sq = 0;
};

inline constexpr double kHuge = 0x1p960;  // magnitudes from here go to huge_sum, times kHugeScale
inline constexpr double kHugeScale = 0x1p-100;
inline constexpr int kHugeExponent = 100;
inline constexpr double kHugeSquare =
    0x1p480;  // squares of magnitudes from here go to huge_sum_sq, times kHugeSquareRoot squared
inline constexpr double kHugeSquareRoot = 0x1p-600;
inline constexpr int kHugeSquareExponent = 1200;

// Adds what another part of the tensor gave. Sums add chain by chain, so the order of the calls is the order of additions.
void merge(State& into, const State& from) noexcept;

// Adds numel contiguous elements of a known dtype. All calls of one measurement but the last must bring whole blocks.
// The caller has set the default floating-point environment.
void add_elements(const void* data, DType dtype, std::size_t numel, const Cuts& cuts, State& state) noexcept;

// Name of the instruction set that add_elements uses.
[[nodiscard]] const char* target_name() noexcept;

// Instruction sets that add_elements is compiled for, as hwy::SupportedTargets() counts them.
[[nodiscard]] std::int64_t compiled_targets() noexcept;

}  // namespace scalewatch::cpu
