// A delivery with its store in memory, its clock real and its receivers real, for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "server/alerting/delivery.h"
#include "server/app/system_clock.h"
#include "tests/unit/alerting/http_server.h"
#include "tests/unit/alerting/samples.h"

namespace scalewatch::alerting {

// The outbox as the store keeps it, in memory.
class MemoryOutbox : public engine::OutboxStore {
 public:
  struct Row {
    engine::OutboxRow row;
    engine::OutboxUpdate last;  // newest durable outcome
  };

  void commit(const engine::CommitBatch& batch) {
    std::lock_guard lock(mutex_);
    for (const auto& alert : batch.alerts) alerts_[alert.id] = alert;
    for (const auto& row : batch.outbox) {
      if (find(row.key, row.sink) == nullptr) rows_.push_back({row, {}});
    }
    for (const auto& update : batch.outbox_updates) {
      if (Row* row = find(update.key, update.sink); row != nullptr && (!row->last.delivered || update.again))
        row->last = update;
    }
    changed_.notify_all();
  }

  std::set<std::string> damaged;  // keys of rows whose bytes are not what was stored; to be set before they are read

  // Waits until the newest outcome of a notice is like that; fails the test after 20 s.
  engine::OutboxUpdate wait(const std::string& key, const std::string& sink,
                            const std::function<bool(const engine::OutboxUpdate&)>& like) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      const Row* row = find(key, sink);
      return row != nullptr && like(row->last);
    });
    EXPECT_TRUE(came) << key << " to " << sink;
    const Row* row = find(key, sink);
    return row == nullptr ? engine::OutboxUpdate{} : row->last;
  }
  engine::OutboxUpdate wait_delivered(const std::string& key, const std::string& sink) {
    return wait(key, sink, [](const auto& update) { return update.delivered; });
  }

  std::vector<Pending> due_outbox(std::int64_t now_ms, std::size_t limit) override {
    std::lock_guard lock(mutex_);
    ++reads_;
    changed_.notify_all();
    std::vector<Pending> out;
    for (const Row& row : rows_) {
      if (out.size() < limit && !row.last.delivered && row.last.next_try_ms <= now_ms)
        out.push_back({row.row, row.last.tries, damaged.contains(row.row.key)});
    }
    return out;
  }
  std::map<std::string, std::uint64_t> count_dead_letters(std::int64_t since_ms) override {
    std::lock_guard lock(mutex_);
    std::map<std::string, std::uint64_t> out;
    for (const Row& row : rows_) out[row.row.sink] += row.last.given_up_ms > 0 && row.last.given_up_ms >= since_ms ? 1 : 0;
    return out;
  }
  std::optional<std::int64_t> next_outbox_due_ms() override { return std::nullopt; }
  std::vector<engine::AlertRow> open_alerts(std::size_t limit) override {
    std::lock_guard lock(mutex_);
    std::vector<engine::AlertRow> out;
    for (const auto& [id, alert] : alerts_) {
      if (out.size() < limit && alert.state != v1::ALERT_STATE_RESOLVED) out.push_back(alert);
    }
    return out;
  }

  // Waits for that many more reads of what is due.
  void wait_reads(std::size_t count) {
    std::unique_lock lock(mutex_);
    const std::size_t from = reads_;
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return reads_ >= from + count; }));
  }

 private:
  Row* find(const std::string& key, const std::string& sink) {
    const auto found =
        std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.row.key == key && row.row.sink == sink; });
    return found == rows_.end() ? nullptr : &*found;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Row> rows_;
  std::map<std::string, engine::AlertRow> alerts_;
  std::size_t reads_ = 0;
};

// The engine's part: commits outcomes and says so, unless told to keep them.
class DeliveryTest : public testing::Test {
 protected:
  DeliveryTest() {
    options_.retry.backoff_min = std::chrono::milliseconds(5);
    options_.retry.backoff_max = std::chrono::milliseconds(20);
    options_.retry.rejected_every = std::chrono::milliseconds(5);
    options_.stop_grace = std::chrono::milliseconds(100);
  }
  ~DeliveryTest() override { stop(); }

  static SinkConfig sink(const std::string& name, const std::string& url, const std::string& type = "webhook") {
    SinkConfig config;
    config.name = name;
    config.type = type;
    config.url = url;
    config.min_severity = domain::Severity::kInfo;
    return config;
  }

  void start(const std::vector<SinkConfig>& sinks) {
    sinks_ = sinks;
    delivery_ = std::make_unique<Delivery>(sinks, store_, clock_, options_);
    delivery_->start([this](std::vector<engine::OutboxUpdate> updates) {
      if (keep_outcomes_) {
        std::lock_guard lock(mutex_);
        kept_.insert(kept_.end(), updates.begin(), updates.end());
        kept_changed_.notify_all();
        return;
      }
      engine::CommitBatch batch;
      batch.outbox_updates = std::move(updates);
      commit(batch);
    });
  }
  void stop() {
    if (delivery_) delivery_->stop();  // before the pointer goes: the thread uses it in commit()
    delivery_.reset();
  }

  void commit(const engine::CommitBatch& batch) {
    store_.commit(batch);
    if (delivery_) delivery_->committed(batch);
  }
  // Returns the alert's id.
  std::string event(domain::FindingEvent::Change change, domain::Severity severity = domain::Severity::kCritical,
                    const std::string& id = "R//1/1") {
    domain::Finding finding = sample_finding(severity);
    finding.id = id;
    finding.subject = id;
    engine::CommitBatch batch;
    if (!book_) book_ = std::make_unique<AlertBook>(each_alone(sinks_), BookOptions{}, clock_, nullptr);
    book_->stage(sample_run(), {{change, finding}}, batch);
    commit(batch);
    return "uid1/" + id;
  }
  static std::vector<std::string> keys(const std::vector<Received>& requests) {
    std::vector<std::string> out;
    for (const Received& request : requests) out.push_back(request.headers.at("idempotency-key"));
    return out;
  }

  MemoryOutbox store_;
  app::SystemClock clock_;
  DeliveryOptions options_;
  std::vector<SinkConfig> sinks_;
  std::unique_ptr<AlertBook> book_;
  std::unique_ptr<Delivery> delivery_;
  std::atomic<bool> keep_outcomes_{false};
  std::mutex mutex_;
  std::condition_variable kept_changed_;
  std::vector<engine::OutboxUpdate> kept_;
};

inline Reply answer(int status, const std::string& body = {}, const std::string& headers = {}) {
  Reply reply;
  reply.status = status;
  reply.body = body;
  reply.headers = headers;
  return reply;
}
inline Reply doing(Reply::How how) {
  Reply reply;
  reply.how = how;
  return reply;
}

}  // namespace scalewatch::alerting
