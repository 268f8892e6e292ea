// Fan-out of events to live readers (TailRun, WatchAlerts), each with a bounded queue: a slow reader loses its oldest events
// and is told how many; it never holds up the publisher.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace scalewatch::engine {

template <class Event>
class Feed {
 public:
  class Subscription {
   public:
    struct Batch {
      std::vector<std::shared_ptr<const Event>> events;
      std::uint64_t dropped = 0;  // lost before `events`
      bool closed = false;        // the feed ended; nothing follows
    };
    // Waits up to `timeout` for events; returns what is there, perhaps nothing.
    Batch wait(std::chrono::milliseconds timeout) {
      std::unique_lock lock(mutex_);
      ready_.wait_for(lock, timeout, [&] { return !queue_.empty() || dropped_ > 0 || closed_; });
      Batch batch{{queue_.begin(), queue_.end()}, dropped_, closed_};
      queue_.clear();
      dropped_ = 0;
      return batch;
    }

   private:
    friend class Feed;
    explicit Subscription(std::size_t capacity) : capacity_(capacity) {}
    void push(const std::shared_ptr<const Event>& event) {
      {
        std::lock_guard lock(mutex_);
        if (queue_.size() == capacity_) {
          queue_.pop_front();
          ++dropped_;
        }
        queue_.push_back(event);
      }
      ready_.notify_one();
    }
    void close() {
      {
        std::lock_guard lock(mutex_);
        closed_ = true;
      }
      ready_.notify_one();
    }

    std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<std::shared_ptr<const Event>> queue_;
    const std::size_t capacity_;
    std::uint64_t dropped_ = 0;
    bool closed_ = false;
  };

  // The subscription ends when the last pointer to it goes.
  std::shared_ptr<Subscription> subscribe(std::size_t capacity) {
    std::shared_ptr<Subscription> subscription(new Subscription(capacity));
    std::lock_guard lock(mutex_);
    if (closed_) subscription->close();
    subscribers_.push_back(subscription);
    return subscription;
  }

  void publish(std::shared_ptr<const Event> event) {
    std::lock_guard lock(mutex_);
    std::erase_if(subscribers_, [&](const std::weak_ptr<Subscription>& weak) {
      auto subscription = weak.lock();
      if (subscription) subscription->push(event);
      return !subscription;
    });
  }

  // Wakes every reader with closed = true; later subscribers find it closed.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    for (auto& weak : subscribers_) {
      if (auto subscription = weak.lock()) subscription->close();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Subscription>> subscribers_;
  bool closed_ = false;
};

}  // namespace scalewatch::engine
