#include "server/history/read_pool.h"

#include <utility>

#include "server/engine/ports/history_store.h"

namespace scalewatch::history {

namespace {
constexpr std::chrono::seconds kWaitForConnection{5};
}  // namespace

ReadPool::ReadPool(std::string path, std::size_t connections, std::chrono::milliseconds transaction)
    : path_(std::move(path)), limit_(connections), transaction_(transaction) {}

std::unique_ptr<Connection> ReadPool::take() {
  std::unique_lock lock(mutex_);
  if (!freed_.wait_for(lock, kWaitForConnection, [&] { return !idle_.empty() || open_ < limit_; })) {
    throw engine::StoreError(path_ + ": all " + std::to_string(limit_) + " readers are busy; try again", true);
  }
  if (!idle_.empty()) {
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }
  ++open_;
  lock.unlock();
  try {
    auto connection = std::make_unique<Connection>(path_, SQLITE_OPEN_READONLY);
    // 16 MB each: the inner pages of the big tables and the map of their overflow stay while a query walks over many chunks.
    connection->execute("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384");
    return connection;
  } catch (...) {
    give_back(nullptr);
    throw;
  }
}

void ReadPool::give_back(std::unique_ptr<Connection> connection) {
  {
    std::lock_guard lock(mutex_);
    if (connection) {
      idle_.push_back(std::move(connection));
    } else {
      --open_;
    }
  }
  freed_.notify_one();
}

void ReadPool::count_cache(const Connection& connection) {
  const auto add = [&](int which, std::atomic<std::uint64_t>& to) {
    int now = 0;
    int most = 0;
    constexpr int kReset = 1;
    if (sqlite3_db_status(connection.handle(), which, &now, &most, kReset) == SQLITE_OK) to += static_cast<std::uint64_t>(now);
  };
  add(SQLITE_DBSTATUS_CACHE_HIT, cache_hits_);
  add(SQLITE_DBSTATUS_CACHE_MISS, cache_misses_);
}

ReadPool::Lease::Lease(ReadPool& pool, Limit limit) : pool_(pool), connection_(pool.take()) {
  const auto now = std::chrono::steady_clock::now();
  page_end_ = now + pool.transaction_ / 2;
  try {
    Query(*connection_, "BEGIN").run();
    if (limit == Limit::kTimed) connection_->set_deadline(now + pool.transaction_);
  } catch (...) {
    pool_.give_back(nullptr);
    throw;
  }
}

ReadPool::Lease::~Lease() {
  connection_->set_deadline(std::nullopt);
  connection_->rollback();
  pool_.count_cache(*connection_);
  pool_.give_back(std::move(connection_));
}

}  // namespace scalewatch::history
