// The arithmetic of the demo: matrix products and rounding as mixed-precision hardware does them.
//
// Values are stored as T. Dot products of T are accumulated in Accumulator<T> (fp32 for fp16, as tensor cores do) in a fixed
// order and rounded to T once; every element-wise result is rounded to T. With T = double nothing is rounded further, which is
// what gradients are checked against. All functions are pure and thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace scalewatch::demo {

using Half = _Float16;

template <class T>
struct AccumulatorOf {
  using Type = T;
};
template <>
struct AccumulatorOf<Half> {
  using Type = float;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::Type;

// Widens exactly.
void widen(std::span<const Half> from, std::span<float> to);
void widen(std::span<const double> from, std::span<double> to);
// Rounds to nearest even; beyond fp16's range this gives Inf, and NaN stays NaN.
void round_to(std::span<const float> from, std::span<Half> to);
void round_to(std::span<const double> from, std::span<double> to);

// c[m×n] = a[m×k] · b[k×n], row-major; every element is summed over k in order.
void multiply(std::span<const float> a, std::span<const float> b, std::span<float> c, std::size_t m, std::size_t k,
              std::size_t n);
void multiply(std::span<const double> a, std::span<const double> b, std::span<double> c, std::size_t m, std::size_t k,
              std::size_t n);

// Element-wise in fp16, each result rounded: values *= factor; values += others.
void multiply_in_place(std::span<Half> values, Half factor);
void add_in_place(std::span<Half> values, std::span<const Half> others);

// [rows×cols] to [cols×rows].
template <class A>
std::vector<A> transposed(std::span<const A> matrix, std::size_t rows, std::size_t cols) {
  std::vector<A> out(matrix.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) out[c * rows + r] = matrix[r * cols + c];
  }
  return out;
}

template <class T>
std::vector<Accumulator<T>> widened(std::span<const T> values) {
  std::vector<Accumulator<T>> out(values.size());
  widen(values, out);
  return out;
}

}  // namespace scalewatch::demo
