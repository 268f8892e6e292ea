#include "cuda/cpu/gather.h"

#include "cuda/record/format.h"

namespace scalewatch::cpu {
namespace {

// Collects elements into blocks and hands full ones on: sink(bytes, elements).
template <class Sink>
class Gatherer {
 public:
  Gatherer(DType dtype, const Sink& sink) noexcept : size_(element_size(dtype)), sink_(sink) {}

  // Elements that lie one behind the other.
  void add_run(const std::byte* from, std::uint64_t count) noexcept {
    while (count > 0) {
      if (held_ == 0 && count >= kBlock) {
        const std::uint64_t whole = count / kBlock * kBlock;
        sink_(from, whole);
        from += whole * size_;
        count -= whole;
        continue;
      }
      const std::uint64_t part = std::min<std::uint64_t>(count, kBlock - held_);
      std::memcpy(block_ + held_ * size_, from, part * size_);
      from += part * size_;
      count -= part;
      held_ += part;
      if (held_ == kBlock) flush();
    }
  }

  // Elements at a distance.
  void add_spread(const std::byte* from, std::uint64_t count, std::int64_t stride) noexcept {
    switch (size_) {
      case 1:
        return spread<1>(from, count, stride);
      case 2:
        return spread<2>(from, count, stride);
      case 4:
        return spread<4>(from, count, stride);
      default:
        return spread<8>(from, count, stride);
    }
  }

  void flush() noexcept {
    if (held_ > 0) sink_(block_, held_);
    held_ = 0;
  }

 private:
  template <std::size_t kSize>
  void spread(const std::byte* from, std::uint64_t count, std::int64_t stride) noexcept {
    const std::int64_t step = stride * static_cast<std::int64_t>(kSize);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(block_ + held_ * kSize, from + static_cast<std::int64_t>(i) * step, kSize);
      if (++held_ == kBlock) flush();
    }
  }

  std::uint64_t size_;
  const Sink& sink_;
  std::size_t held_ = 0;
  alignas(64) std::byte block_[kBlock * 8];
};

// Hands on `count` elements of a walk, at least one, from number `first` on.
template <class Sink>
void take_elements(const Walk& walk, DType dtype, std::uint64_t first, std::uint64_t count, const Sink& sink) noexcept {
  Gatherer gatherer(dtype, sink);
  const auto size = static_cast<std::int64_t>(element_size(dtype));
  const std::size_t outer = walk.dims == 0 ? 0 : walk.dims - 1;
  const std::uint64_t length = walk.dims == 0 ? 1 : walk.sizes[outer];
  const std::int64_t stride = walk.dims == 0 ? 1 : walk.strides[outer];
  std::uint64_t index[StridedTensor::kMaxDims] = {};
  const std::byte* row = walk.start;
  std::uint64_t rows = first / length;
  for (std::size_t dim = outer; dim > 0; --dim) {
    index[dim - 1] = rows % walk.sizes[dim - 1];
    rows /= walk.sizes[dim - 1];
    row += static_cast<std::int64_t>(index[dim - 1]) * walk.strides[dim - 1] * size;
  }
  std::uint64_t at = first % length;
  while (true) {
    const std::uint64_t part = std::min(count, length - at);
    const std::byte* from = row + static_cast<std::int64_t>(at) * stride * size;
    if (stride == 1) {
      gatherer.add_run(from, part);
    } else {
      gatherer.add_spread(from, part, stride);
    }
    at = 0;
    count -= part;
    if (count == 0) break;
    std::size_t dim = outer;
    while (++index[dim - 1] == walk.sizes[dim - 1]) {
      --dim;
      row -= walk.strides[dim] * size * static_cast<std::int64_t>(walk.sizes[dim] - 1);
      index[dim] = 0;
    }
    row += walk.strides[dim - 1] * size;
  }
  gatherer.flush();
}

}  // namespace

bool make_walk(const StridedTensor& tensor, Walk& walk) noexcept {
  const auto size = static_cast<std::int64_t>(element_size(tensor.dtype));
  if (size == 0 || tensor.data == nullptr || tensor.dims > StridedTensor::kMaxDims) return false;
  walk = {};
  walk.start = static_cast<const std::byte*>(tensor.data);
  std::uint64_t numel = 1;
  std::int64_t extent = size;  // bytes between the ends: no address is computed that it does not cover
  for (std::size_t i = 0; i < tensor.dims; ++i) {
    const std::uint64_t length = tensor.sizes[i];
    if (length == 0) return false;
    if (__builtin_mul_overflow(numel, length, &numel)) return false;
    if (length == 1) continue;
    std::int64_t stride = tensor.strides[i];
    std::int64_t reach = 0;
    if (length > INT64_MAX || __builtin_mul_overflow(stride, static_cast<std::int64_t>(length - 1), &reach) ||
        __builtin_mul_overflow(reach, size, &reach) || reach == INT64_MIN ||
        __builtin_add_overflow(extent, reach < 0 ? -reach : reach, &extent)) {
      return false;
    }
    if (stride < 0) {  // from its other end it is the same memory, forward
      walk.start += reach;
      stride = -stride;
    }
    std::size_t at = walk.dims++;
    for (; at > 0 && walk.strides[at - 1] < stride; --at) {
      walk.strides[at] = walk.strides[at - 1];
      walk.sizes[at] = walk.sizes[at - 1];
    }
    walk.strides[at] = stride;
    walk.sizes[at] = length;
  }
  std::size_t joined = 0;
  for (std::size_t i = 1; i < walk.dims; ++i) {
    const std::int64_t stride = walk.strides[i];
    if (static_cast<std::uint64_t>(walk.strides[joined]) == static_cast<std::uint64_t>(stride) * walk.sizes[i]) {
      walk.sizes[joined] *= walk.sizes[i];
      walk.strides[joined] = stride;
    } else {
      ++joined;
      walk.sizes[joined] = walk.sizes[i];
      walk.strides[joined] = stride;
    }
  }
  walk.dims = walk.dims == 0 ? 0 : joined + 1;
  return true;
}

std::uint64_t count_elements(const Walk& walk) noexcept {
  std::uint64_t numel = 1;
  for (std::size_t i = 0; i < walk.dims; ++i) numel *= walk.sizes[i];
  return numel;
}

void add_walk(const Walk& walk, DType dtype, std::uint64_t first, std::uint64_t count, const Cuts& cuts,
              State& state) noexcept {
  take_elements(walk, dtype, first, count,
                [&](const std::byte* from, std::uint64_t elements) { add_elements(from, dtype, elements, cuts, state); });
}

void add_walk_exponents(const Walk& walk, DType dtype, ExponentCounts& counts) noexcept {
  take_elements(walk, dtype, 0, count_elements(walk),
                [&](const std::byte* from, std::uint64_t elements) { measure_exponents(from, dtype, elements, counts); });
}

}  // namespace scalewatch::cpu
