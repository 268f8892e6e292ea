#include "server/auth/lockout.h"

#include <algorithm>

namespace scalewatch::auth {

std::int64_t Lockout::wait_ms(const std::string& key, std::int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? 0 : std::max<std::int64_t>(0, found->second.until_ms - now_ms);
}

void Lockout::failed(const std::string& key, std::int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kMostKeys && !entries_.contains(key)) {
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const auto& a, const auto& b) { return a.second.last_ms < b.second.last_ms; }));
  }
  Entry& entry = entries_[key];
  if (now_ms - entry.last_ms > kForgetMs) entry = {};
  entry.last_ms = now_ms;
  if (++entry.failures < kFree) return;
  const unsigned doublings = std::min(entry.failures - kFree, 30U);
  entry.until_ms = now_ms + std::min(kLongestMs, kFirstMs << doublings);
}

void Lockout::succeeded(const std::string& key) {
  const std::lock_guard lock(mutex_);
  entries_.erase(key);
}

}  // namespace scalewatch::auth
