#include "server/alerting/sink_queue.h"

#include <algorithm>
#include <iterator>

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

void SinkQueue::hurry(std::int64_t now_ms) {
  std::set<std::pair<std::int64_t, std::string>> due;
  for (const auto& [at, order] : waiting_) due.emplace(std::min(at, now_ms), order);
  waiting_ = std::move(due);
}

std::vector<engine::OutboxRow> SinkQueue::drain() {
  std::set<std::string> idle;
  for (const auto& [at, order] : waiting_) idle.insert(order);
  waiting_.clear();
  std::vector<engine::OutboxRow> out;
  for (auto it = chains_.begin(); it != chains_.end();) {
    std::deque<Item>& chain = it->second;
    const std::size_t keep = idle.contains(it->first) ? 0 : 1;
    while (chain.size() > keep) {
      out.push_back(std::move(chain.back().row));
      chain.pop_back();
      --size_;
    }
    it = chain.empty() ? chains_.erase(it) : std::next(it);
  }
  return out;
}

void SinkQueue::release(const std::string& order) {
  const auto found = held_.find(order);
  if (--found->second == 0) held_.erase(found);
}

std::optional<std::int64_t> SinkQueue::oldest_ms() const {
  std::optional<std::int64_t> oldest;
  for (const auto& [order, chain] : chains_) {
    if (!chain.empty()) oldest = std::min(oldest.value_or(chain.front().row.created_ms), chain.front().row.created_ms);
  }
  return oldest;
}

std::int64_t SinkQueue::next_due_ms(std::int64_t now_ms) const {
  const auto next = waiting_.lower_bound({now_ms + 1, std::string()});
  return next == waiting_.end() ? std::numeric_limits<std::int64_t>::max() : next->first;
}

}  // namespace scalewatch::alerting
