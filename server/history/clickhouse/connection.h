// Requests to ClickHouse's HTTP interface, one at a time. Not thread-safe: each thread has its own. A host that does not
// answer, or has a fault of its own (full, overloaded, read-only), is left for the next one, and gone back to once it is good
// again; a mistake of ours is thrown at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/history/clickhouse/hosts.h"
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
  // Throws StoreError with the servers' first lines: retryable when no host answered, or all are overloaded, full or refuse for
  // now.
  std::string query(std::string_view sql, std::chrono::milliseconds limit = {});
  // The same, of a host that has all of these tables that any replica had when this was called; one that has not, nor gets it
  // within some seconds, is left as one that does not answer. With replicas whoever takes a run over asks like this.
  std::string query_whole(const std::vector<std::string>& tables, std::string_view sql);
  // INSERT INTO `table` of a block's rows, if there are any. They are in the table when it returns; when it throws, all, some
  // or none may be.
  void insert(const std::string& table, const Block& block) { insert(table, block, 0, block.rows()); }
  // The same of `count` rows from `first` on, of a block of numbers.
  void insert(const std::string& table, const Block& block, std::size_t first, std::size_t count);
  // The same of rows that are Native already.
  void insert_raw(const std::string& table, std::string_view native);
  // A statement at one of the hosts, and its result. `in_database`: false before there is one.
  std::string execute_at(std::size_t host, std::string_view sql, bool in_database = true);
  // Throws StoreError where a host does not answer within some seconds and there are others; a single one has all its time.
  void check(std::size_t host);
  [[nodiscard]] std::size_t hosts() const { return urls_.size(); }
  // One without tables is not asked until a look finds them there.
  void set_tables(std::size_t host, bool there) { hosts_.set_tables(host, there); }
  [[nodiscard]] bool has_tables(std::size_t host) const { return hosts_.has_tables(host); }
  // Whether a host turned out to be there without tables since this was asked last.
  bool take_bare() { return hosts_.take_bare(); }
  // When a host last answered; the epoch before any did.
  [[nodiscard]] std::chrono::steady_clock::time_point answered_at() const { return answered_at_; }
  // Whether the database or a table was not there since this was asked last.
  bool take_lost() { return std::exchange(lost_, false); }
  // Makes what runs now, and what follows, fail at once. Any thread.
  void cancel() { *cancelled_ = true; }

 private:
  using Cancelled = std::shared_ptr<std::atomic<bool>>;
  Connection(const Options& options, Cancelled cancelled);

  struct Request {
    std::string parameters;              // of the URL, each with a leading &
    std::vector<std::string_view> body;  // parts that follow each other
    bool compressed = false;
    bool in_database = true;
    std::chrono::milliseconds limit{};
    std::vector<std::string> whole = {};  // tables that the host has to have all of
  };
  enum class Outcome : std::uint8_t { kAnswered, kAway, kFault };
  // `into`: a table, with the columns that there are unless there are all.
  void insert_parts(const std::string& into, std::vector<std::string_view> parts);
  std::string send(const Request& request);
  // Throws StoreError for a mistake of ours, and when cancelled.
  Outcome send_to(std::size_t host, const Request& request, std::string& answer, std::string& error);
  Outcome catch_up(std::size_t host, const std::vector<std::string>& tables, std::string& error);
  Outcome catch_up(std::size_t host, const std::string& table, std::chrono::steady_clock::time_point end, std::string& error);
  static Hosts::State look_at(const Options& host, const Cancelled& cancelled);
  // After a denial: whether the password is another one by now, to try again with.
  bool has_new_password();
  std::string escaped(std::string_view text);

  const Options options_;
  const Cancelled cancelled_;
  std::vector<std::string> urls_;
  std::string password_;
  std::chrono::steady_clock::time_point answered_at_{};
  bool lost_ = false;
  struct Close {
    void operator()(void* easy) const;
  };
  std::unique_ptr<void, Close> easy_;
  Hosts hosts_;
};

// 'text', with what must be escaped in SQL.
std::string quoted(std::string_view text);

}  // namespace scalewatch::clickhouse
