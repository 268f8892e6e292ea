#include "tests/bench/stats/read.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/stats/read.cc"
#include <hwy/foreach_target.h>
// Highway's own order: foreach_target.h comes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace scalewatch::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

std::uint32_t read_all(const void* data, std::size_t bytes) {
  const hn::ScalableTag<std::uint32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* from = static_cast<const std::uint32_t*>(data);
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  auto c = hn::Zero(d);
  auto e = hn::Zero(d);
  for (std::size_t i = 0; i < bytes / sizeof *from; i += 4 * lanes) {
    a = hn::Add(a, hn::Load(d, from + i));
    b = hn::Add(b, hn::Load(d, from + i + lanes));
    c = hn::Add(c, hn::Load(d, from + i + 2 * lanes));
    e = hn::Add(e, hn::Load(d, from + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

}  // namespace scalewatch::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scalewatch::bench {
HWY_EXPORT(read_all);
std::uint32_t read_all(const void* data, std::size_t bytes) noexcept {
  return HWY_DYNAMIC_DISPATCH(read_all)(data, bytes);
}
}  // namespace scalewatch::bench
#endif  // HWY_ONCE
