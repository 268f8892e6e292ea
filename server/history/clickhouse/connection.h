// Requests to ClickHouse's HTTP interface, one at a time. Not thread-safe: each thread has its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/history/clickhouse/native.h"
#include "server/history/clickhouse/options.h"

namespace scalewatch::clickhouse {

class Connection {
 public:
  // Throws StoreError when the password can't be read.
  explicit Connection(const Options& options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The result of a query, as its FORMAT says; at most 1 GiB. `limit`: of this request; 0: the options' timeout.
  // Throws StoreError with the server's first line: retryable when no host answered, one is overloaded, full or refuses for
  // now.
  std::string query(std::string_view sql, std::chrono::milliseconds limit = {});
  // INSERT INTO `table` of a block's rows, if there are any. They are in the table when it returns; when it throws, all, some
  // or none may be.
  void insert(const std::string& table, const Block& block) { insert(table, block, 0, block.rows()); }
  // The same of `count` rows from `first` on, of a block of numbers.
  void insert(const std::string& table, const Block& block, std::size_t first, std::size_t count);
  // The same of rows that are Native already.
  void insert_raw(const std::string& table, std::string_view native);
  // A statement at one of the hosts, and its result. `in_database`: false before there is one.
  std::string execute_at(std::size_t host, std::string_view sql, bool in_database = true);
  [[nodiscard]] std::size_t hosts() const { return hosts_.size(); }
  // When a host last answered; the epoch before any did.
  [[nodiscard]] std::chrono::steady_clock::time_point answered_at() const { return answered_at_; }
  // Whether the database or a table was not there since this was asked last.
  bool take_lost() { return std::exchange(lost_, false); }
  // Makes what runs now, and what follows, fail at once. Any thread.
  void cancel() { cancelled_ = true; }

 private:
  struct Request {
    std::string parameters;              // of the URL, each with a leading &
    std::vector<std::string_view> body;  // parts that follow each other
    bool compressed = false;
    bool in_database = true;
    std::chrono::milliseconds limit{};
  };
  // `into`: a table, with the columns that there are unless there are all.
  void insert_parts(const std::string& into, std::vector<std::string_view> parts);
  std::string send(const Request& request);
  // False: no connection, try another host.
  bool send_to(std::size_t host, const Request& request, std::string& answer, std::string& error);
  // After a denial: whether the password is another one by now, to try again with.
  bool has_new_password();
  std::string escaped(std::string_view text);

  const Options options_;
  std::vector<std::string> hosts_;
  std::string password_;
  std::size_t current_ = 0;
  std::chrono::steady_clock::time_point answered_at_{};
  bool lost_ = false;
  struct Close {
    void operator()(void* easy) const;
  };
  std::unique_ptr<void, Close> easy_;
  std::atomic<bool> cancelled_{false};
};

// 'text', with what must be escaped in SQL.
std::string quoted(std::string_view text);

}  // namespace scalewatch::clickhouse
