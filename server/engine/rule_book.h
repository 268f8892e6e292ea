// The settings of the rules as they are configured now. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "server/domain/thresholds.h"

namespace scalewatch::engine {

class RuleBook {
 public:
  // Of the run of that name. Called from any thread.
  using Of = std::function<domain::Thresholds(const std::string& run)>;

  explicit RuleBook(Of of) : of_(std::make_shared<const Of>(std::move(of))) {}

  void change(Of of) {
    std::lock_guard lock(mutex_);
    of_ = std::make_shared<const Of>(std::move(of));
    ++version_;
  }
  // Rises with every change, so that runs see cheaply whether there is something to do.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] domain::Thresholds of(const std::string& run) const {
    std::shared_ptr<const Of> now;
    {
      std::lock_guard lock(mutex_);
      now = of_;
    }
    return (*now)(run);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Of> of_;
  std::atomic<std::uint64_t> version_{1};
};

}  // namespace scalewatch::engine
