#include "server/alerting/sink_queue.h"

namespace scalewatch::alerting {

void SinkQueue::push(const std::string& order, Item item, std::int64_t now_ms) {
  std::deque<Item>& chain = chains_[order];
  chain.push_back(std::move(item));
  ++size_;
  if (chain.size() == 1) waiting_.emplace(now_ms, order);
}

std::optional<std::string> SinkQueue::take(std::int64_t now_ms) {
  for (auto it = waiting_.begin(); it != waiting_.end() && it->first <= now_ms; ++it) {
    if (held_.contains(it->second)) continue;
    std::string order = it->second;
    waiting_.erase(it);
    return order;
  }
  return std::nullopt;
}

void SinkQueue::finish(const std::string& order, std::int64_t now_ms) {
  const auto found = chains_.find(order);
  found->second.pop_front();
  --size_;
  if (found->second.empty()) {
    chains_.erase(found);
  } else {
    waiting_.emplace(now_ms, order);
  }
}

void SinkQueue::retry(const std::string& order, std::uint32_t tries, std::int64_t due_ms) {
  chains_.at(order).front().tries = tries;
  waiting_.emplace(due_ms, order);
}

void SinkQueue::release(const std::string& order) {
  const auto found = held_.find(order);
  if (--found->second == 0) held_.erase(found);
}

std::int64_t SinkQueue::next_due_ms(std::int64_t now_ms) const {
  const auto next = waiting_.lower_bound({now_ms + 1, std::string()});
  return next == waiting_.end() ? std::numeric_limits<std::int64_t>::max() : next->first;
}

}  // namespace scalewatch::alerting
