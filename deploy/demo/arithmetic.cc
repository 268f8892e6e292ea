#include "deploy/demo/arithmetic.h"

#include <algorithm>

// Wider vectors where the CPU has them. The results are the same bit for bit: a product of two fp16 is exact in fp32 and each
// element's sum runs in one order whatever the width. Sanitizers do not get along with the resolvers that this needs.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SCALEWATCH_DEMO_CLONES __attribute__((target_clones("arch=haswell", "default")))
#else
#define SCALEWATCH_DEMO_CLONES
#endif

namespace scalewatch::demo {
namespace {

template <class To, class From>
[[gnu::always_inline]] inline void convert(const From* from, To* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

template <class A>
[[gnu::always_inline]] inline void multiply_rows(const A* __restrict a, const A* __restrict b, A* __restrict c, std::size_t m,
                                                 std::size_t k, std::size_t n) {
  for (std::size_t i = 0; i < m; ++i) {
    A* row = c + i * n;
    std::fill(row, row + n, A{0});
    for (std::size_t j = 0; j < k; ++j) {
      const A factor = a[i * k + j];
      const A* other = b + j * n;
      for (std::size_t x = 0; x < n; ++x) row[x] += factor * other[x];
    }
  }
}

SCALEWATCH_DEMO_CLONES void widen_half(const Half* from, float* to, std::size_t count) {
  convert(from, to, count);
}
SCALEWATCH_DEMO_CLONES void round_half(const float* from, Half* to, std::size_t count) {
  convert(from, to, count);
}
SCALEWATCH_DEMO_CLONES void multiply_float(const float* a, const float* b, float* c, std::size_t m, std::size_t k,
                                           std::size_t n) {
  multiply_rows(a, b, c, m, k, n);
}
SCALEWATCH_DEMO_CLONES void multiply_half(Half* values, Half factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<Half>(values[i] * factor);
}
SCALEWATCH_DEMO_CLONES void add_half(Half* values, const Half* others, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<Half>(values[i] + others[i]);
}

}  // namespace

void widen(std::span<const Half> from, std::span<float> to) {
  widen_half(from.data(), to.data(), from.size());
}
void widen(std::span<const double> from, std::span<double> to) {
  std::copy(from.begin(), from.end(), to.begin());
}
void round_to(std::span<const float> from, std::span<Half> to) {
  round_half(from.data(), to.data(), from.size());
}
void round_to(std::span<const double> from, std::span<double> to) {
  std::copy(from.begin(), from.end(), to.begin());
}

void multiply(std::span<const float> a, std::span<const float> b, std::span<float> c, std::size_t m, std::size_t k,
              std::size_t n) {
  multiply_float(a.data(), b.data(), c.data(), m, k, n);
}
void multiply(std::span<const double> a, std::span<const double> b, std::span<double> c, std::size_t m, std::size_t k,
              std::size_t n) {
  multiply_rows(a.data(), b.data(), c.data(), m, k, n);
}
void multiply_in_place(std::span<Half> values, Half factor) {
  multiply_half(values.data(), factor, values.size());
}
void add_in_place(std::span<Half> values, std::span<const Half> others) {
  add_half(values.data(), others.data(), values.size());
}

}  // namespace scalewatch::demo
