// Windows, and what is held against whom.
#include <algorithm>
#include <bit>

#include "server/domain/tensor_watch.h"

namespace scalewatch::domain {

TensorWatch::Since TensorWatch::here() const {
  return {static_cast<std::uint32_t>(attempt_), static_cast<std::uint32_t>(step_)};
}

bool TensorWatch::run(std::uint16_t& streak, bool was_on, bool bad, std::uint32_t on_after, std::uint32_t off_after,
                      Since& since) const {
  if (bad == was_on) {
    streak = 0;
    return was_on;
  }
  if (streak == 0 && !was_on) since = here();
  if (++streak < (was_on ? off_after : on_after)) return was_on;
  streak = 0;
  return !was_on;
}

bool TensorWatch::slide(std::uint32_t& bits, bool was_on, bool bad, std::uint32_t on_at, Since& since) const {
  if (bits == 0 && !bad) return false;
  const std::uint32_t window = t_.tensor_window >= 32 ? UINT32_MAX : (1U << t_.tensor_window) - 1;
  bits = ((bits << 1U) | (bad ? 1U : 0U)) & window;
  const auto count = static_cast<std::uint32_t>(std::popcount(bits));
  if (bad && count == 1) since = here();
  // Off at a quarter of what it takes, so that it does not flap.
  return was_on ? count > on_at / 4 : count >= on_at;
}

void TensorWatch::hold(Held& held, const Since& since, std::uint64_t elements) const {
  const Attempt attempt = attempt_ - (static_cast<std::uint32_t>(attempt_) - since.attempt);
  if (held.tensors == 0 || attempt < held.since) {
    held.since = attempt;
    const auto ago = static_cast<std::int32_t>(static_cast<std::uint32_t>(step_) - since.step);
    held.since_step = step_ - ago;
  }
  ++held.tensors;
  held.elements += elements;
}

// What is lost of a gradient weighs by its elements: a bias of noise must not hide a layer.
double TensorWatch::badness(TensorRule rule, const Worst& one) const {
  const bool weighs = rule == TensorRule::kGradientUnderflow;
  return weighs ? one.value * static_cast<double>(facts_[one.id].numel) : one.value;
}

void TensorWatch::judge(TensorRule rule, std::uint32_t id, bool now, double value) {
  State& state = tensors_[id];
  const TensorFacts& facts = facts_[id];
  const auto mask = static_cast<std::uint8_t>(1U << static_cast<unsigned>(rule));
  const bool was = (state.on & mask) != 0;
  if (!was && !now) return;
  Held& held = groups_[facts.group].held[static_cast<std::size_t>(rule)];
  const auto known = std::find_if(held.worst.begin(), held.worst.end(), [&](const Worst& one) { return one.id == id; });
  const auto less = [&](const Worst& a, const Worst& b) { return badness(rule, a) < badness(rule, b); };
  if (!now) {
    state.on = static_cast<std::uint8_t>(state.on & ~mask);
    --held.tensors;
    held.elements -= facts.numel;
    if (known != held.worst.end()) held.worst.erase(known);
    return;
  }
  if (!was) {
    state.on = static_cast<std::uint8_t>(state.on | mask);
    hold(held, state.since[window_of(rule)], facts.numel);
  }
  held.touched = std::max(held.touched, attempt_);
  if (known != held.worst.end()) {
    known->value = value;
  } else if (held.worst.size() < TensorFaults::kMaxWorst) {
    held.worst.push_back({id, value});
  } else {
    const auto least = std::min_element(held.worst.begin(), held.worst.end(), less);
    if (less(*least, {id, value})) *least = {id, value};
  }
}

TensorFaults TensorWatch::told(TensorRule rule, std::uint32_t index, const TensorTable& table) const {
  const Group& group = groups_[index];
  const Held& held = group.held[static_cast<std::size_t>(rule)];
  TensorFaults out;
  out.rule = rule;
  if (index < rank_.no_group()) out.scaler = index;
  out.tensors = held.tensors;
  out.elements = held.elements;
  out.measured = group.elements;
  Held whole = held;
  if (rule == TensorRule::kDominantGradient) {
    whole.tensors = 0;
    hold(whole, group.dominant_since, facts_[group.dominant].numel);
    out.tensors = 1;
    out.elements = facts_[group.dominant].numel;
  } else if (rule == TensorRule::kGradientUnderflow && group.all_zero) {
    hold(whole, group.zero_since, 0);
    out.all_zero = true;
    out.tensors = group.gradients;
    out.elements = group.elements;
  }
  out.since = whole.since;
  out.since_step = whole.since_step;
  if (rule == TensorRule::kGradientUnderflow && group.limiting != kNone && !group.all_zero) {
    out.limiting = table[group.limiting].name;
    out.headroom = static_cast<double>(group.headroom);
  }
  std::sort(whole.worst.begin(), whole.worst.end(), [&](const Worst& a, const Worst& b) {
    const double x = badness(rule, a);
    const double y = badness(rule, b);
    return x > y || (!(y > x) && a.id < b.id);
  });
  for (const Worst& one : whole.worst) out.worst.push_back({table[one.id].name, facts_[one.id].role, one.value});
  return out;
}

}  // namespace scalewatch::domain
