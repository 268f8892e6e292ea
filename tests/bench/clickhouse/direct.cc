// ClickHouse's own inserts of what scalewatchd sent it: the same rows in the same order, inserts of the same size.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/history/clickhouse/native.h"
#include "server/history/clickhouse/tables.h"
#include "server/history/score_groups.h"
#include "server/history/varint.h"
#include "tests/bench/clickhouse/parts.h"

namespace scalewatch::bench {

namespace {

constexpr std::uint64_t kBatch = 1'000'000;  // history.clickhouse.batch_records
constexpr std::uint64_t kWindows = 2;        // batches that are on their way at a time

std::size_t size_of(std::string_view type) {
  if (type == "UInt8") return 1;
  if (type == "Date") return 2;
  if (type == "UInt32") return 4;
  if (type == "UInt64") return 8;
  throw std::runtime_error("a column before the one that goes on is of type " + std::string(type));
}

// Rows of a table in one block of Native, that can be made other ones in time: a column of UInt64 goes on, so that none comes
// twice.
class Rows {
 public:
  Rows(clickhouse::Connection& connection, std::string table, const std::string& column, const std::string& select)
      : table_(std::move(table)), step_(number(connection, "SELECT max(" + column + ") FROM " + table_) + 1) {
    native_ =
        connection.query("SELECT * FROM " + table_ + " WHERE " + select + " SETTINGS max_block_size = 10000000 FORMAT Native",
                         std::chrono::minutes(1));
    if (native_.empty()) return;
    std::string_view rest = native_;
    std::uint64_t columns = 0;
    if (!history::take_varint(rest, columns) || !history::take_varint(rest, rows_))
      throw std::runtime_error("no rows of " + table_);
    clickhouse::RowReader at(rest);
    for (std::uint64_t i = 0; i < columns; ++i) {
      const std::string_view name = at.text();
      const std::string_view type = at.text();
      const std::string_view values = at.bytes(rows_ * size_of(type));
      if (name != column) continue;
      values_at_ = static_cast<std::size_t>(values.data() - native_.data());
      return;
    }
    throw std::runtime_error("no column " + column + " in " + table_);
  }
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  // Into a table DIRECT_TABLE, and on to the next ones.
  void insert(clickhouse::Connection& connection) {
    if (rows_ == 0) return;
    connection.insert_raw("direct_" + table_, native_);
    for (std::size_t row = 0; row < rows_; ++row) {
      char* const at = native_.data() + values_at_ + row * sizeof(std::uint64_t);
      std::uint64_t value = 0;
      std::memcpy(&value, at, sizeof value);
      value += step_;
      std::memcpy(at, &value, sizeof value);
    }
  }

 private:
  std::string table_;
  std::uint64_t step_;
  std::uint64_t rows_ = 0;
  std::string native_;
  std::size_t values_at_ = 0;
};

// What a batch of the server has, as it sends it: halves of the records and all else side by side.
class Window {
 public:
  Window(const clickhouse::Options& options, std::uint64_t first, std::uint64_t last, std::uint64_t records, Direct what) {
    clickhouse::Connection connection(options);
    const std::string of = "attempt BETWEEN " + std::to_string(first) + " AND " + std::to_string(last);
    const auto groups = [&](const char* stats, std::uint64_t width) {
      return std::string(stats) + " AND grp BETWEEN " + std::to_string(history::group_of(first, width)) + " AND " +
             std::to_string(history::group_of(last, width));
    };
    const std::string order = " ORDER BY run, segment, tensor, attempt, rank, stream, seq, id LIMIT ";
    const std::string half = std::to_string(records / 2);
    lanes_.resize(2);
    lanes_[0].emplace_back(connection, "records", "attempt", of + order + half);
    lanes_[1].emplace_back(connection, "records", "attempt", of + order + half + ", " + half);
    records_ = lanes_[0][0].rows() + lanes_[1][0].rows();
    if (what == Direct::kRecords) return;
    auto& rest = lanes_.emplace_back();
    rest.emplace_back(connection, "scores", "grp",
                      "(" + groups("stat <= 4", history::kGroupAttempts) + ") OR (" +
                          groups("stat > 4", history::kWideAttempts) + ") ORDER BY run, segment, stat, grp, tensor, target");
    rest.emplace_back(connection, "non_finite", "attempt",
                      of + " ORDER BY run, segment, attempt, tensor, rank, stream, seq, id");
    rest.emplace_back(connection, "scalers", "attempt", of + " ORDER BY run, segment, scaler, attempt, rank, pos");
    rest.emplace_back(connection, "payloads", "pos", of + " ORDER BY run, pos, term");
    rest.emplace_back(connection, "reports", "attempt", of + " ORDER BY run, segment, attempt, rank, stream, seq");
    rest.emplace_back(connection, "batches", "to_pos", "to_pos = (SELECT min(to_pos) FROM batches)");
  }
  [[nodiscard]] std::uint64_t records() const { return records_; }
  void insert(std::vector<std::unique_ptr<clickhouse::Connection>>& connections) {
    std::vector<std::future<void>> sent;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      sent.push_back(std::async(std::launch::async, [&lane = lanes_[i], &connection = *connections[i]] {
        for (Rows& rows : lane) rows.insert(connection);
      }));
    }
    for (auto& lane : sent) lane.get();
  }
  [[nodiscard]] std::size_t lanes() const { return lanes_.size(); }

 private:
  std::vector<std::vector<Rows>> lanes_;
  std::uint64_t records_ = 0;
};

}  // namespace

double direct(const Arguments& arguments, const clickhouse::Options& options, Direct what, Output& out) {
  clickhouse::Connection connection(options);
  const std::uint64_t attempts = number(connection, "SELECT max(attempt) FROM records") / kWindows;
  const std::uint64_t wide = std::uint64_t{arguments.streams} * arguments.tensors;
  const std::uint64_t length = std::min<std::uint64_t>(attempts, kBatch / wide);
  if (length == 0) throw std::runtime_error("too few rows: more --seconds");
  std::vector<Window> windows;
  windows.reserve(kWindows);
  for (std::uint64_t i = 0; i < kWindows; ++i)
    windows.emplace_back(options, 1 + i * length, (i + 1) * length, length * wide, what);
  for (const auto& table : clickhouse::tables()) connection.query("CREATE TABLE direct_" + table.name + " AS " + table.name);
  std::vector<std::thread> senders;
  std::atomic<std::uint64_t> done{0};
  std::atomic<bool> failed{false};
  const double cpu_before = cpu_of_server();
  const auto begin = Clock::now();
  for (Window& window : windows) {
    senders.emplace_back([&] {
      try {
        std::vector<std::unique_ptr<clickhouse::Connection>> own;
        while (own.size() < window.lanes()) own.push_back(std::make_unique<clickhouse::Connection>(options));
        while (seconds_since(begin) < arguments.seconds) {
          window.insert(own);
          done += window.records();
        }
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        failed = true;
      }
    });
  }
  for (auto& sender : senders) sender.join();
  if (failed) throw std::runtime_error("direct inserts failed");
  const double rate = static_cast<double>(done) / seconds_since(begin);
  out.put(what == Direct::kRecords ? "direct inserts of records alone" : "direct inserts of the same rows, of all tables", rate,
          "records/s", 0);
  out.put("  ClickHouse's CPU a record of them", (cpu_of_server() - cpu_before) / static_cast<double>(done) * 1e9, "ns", 0);
  for (const auto& table : clickhouse::tables()) connection.query("DROP TABLE direct_" + table.name);
  return rate;
}

}  // namespace scalewatch::bench
