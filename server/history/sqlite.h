// A thin layer over SQLite's C API: connections with cached statements, and queries that clean up after themselves.
//
// Every error becomes an engine::StoreError that names the file and the cause; full disks, I/O errors, locks and deadlines are
// retryable, corruption and mistakes are not. Not thread-safe: one thread uses a connection at a time.
#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace scalewatch::history {

class Connection {
 public:
  // `flags` as for sqlite3_open_v2.
  Connection(std::string path, int flags);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Runs statements that give no rows.
  void execute(const char* sql);
  // First column of the first row, for pragmas and the like; 0 when there is no row.
  std::int64_t scalar(const char* sql);
  // The cached statement for `sql`, reset and without bindings.
  sqlite3_stmt* prepare(std::string_view sql);
  // Statements that run beyond this moment fail as retryable; absent: never.
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline);
  // Rows that the newest INSERT, UPDATE or DELETE changed.
  [[nodiscard]] std::int64_t changes() const;
  // Of the newest row that was inserted.
  [[nodiscard]] std::int64_t last_rowid() const;
  [[nodiscard]] bool in_transaction() const;
  [[nodiscard]] bool read_only() const;
  // That every message of the file ends with a seal (see seal.h). Looked up once, so not before the schema is there.
  [[nodiscard]] bool all_sealed();
  // Ends a transaction without effect; harmless when there is none. Never throws.
  void rollback() noexcept;
  [[noreturn]] void fail(const char* doing, int code) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] sqlite3* handle() const { return db_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  static int check_deadline(void* self);

  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
  std::map<std::string, std::unique_ptr<sqlite3_stmt, Finalize>, std::less<>> statements_;  // after db_: freed before it
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::optional<bool> all_sealed_;
};

struct Blob {
  std::string_view bytes;
};

// Reads parts of blobs of one column without the rest. The connection must outlive it.
class BlobReader {
 public:
  BlobReader(Connection& connection, const char* table, const char* column)
      : connection_(connection), table_(table), column_(column) {}
  ~BlobReader();
  BlobReader(const BlobReader&) = delete;
  BlobReader& operator=(const BlobReader&) = delete;

  // Goes to a row; false when there is none.
  bool open(std::int64_t rowid);
  [[nodiscard]] std::size_t size() const;
  // False when the blob ends before.
  bool read(std::size_t offset, std::size_t size, std::string& out);

 private:
  Connection& connection_;
  const char* table_;
  const char* column_;
  sqlite3_blob* blob_ = nullptr;
  std::int64_t row_ = 0;  // that it is at
};

// One use of a cached statement. Bound text and blobs must outlive it. Two at once of the same text on one connection are a
// mistake.
class Query {
 public:
  template <class... Values>
  Query(Connection& connection, std::string_view sql, const Values&... values)
      : connection_(connection), statement_(connection.prepare(sql)) {
    (bind(values), ...);
  }
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // Binds the next parameter. NaN is stored as the text 'NaN', for SQLite takes a NaN for NULL.
  void bind(std::int64_t value);
  void bind(std::uint64_t value) { bind(static_cast<std::int64_t>(value)); }
  void bind(std::int32_t value) { bind(static_cast<std::int64_t>(value)); }
  void bind(std::uint32_t value) { bind(static_cast<std::int64_t>(value)); }
  void bind(bool value) { bind(static_cast<std::int64_t>(value)); }
  void bind(double value);
  void bind(std::string_view text);
  void bind(const std::string& text) { bind(std::string_view(text)); }
  void bind(Blob blob);
  template <class T>
  void bind(const std::optional<T>& value) {
    value ? bind(*value) : bind_null();
  }

  // The value of a column of another query's row, whatever it is.
  void bind_from(const Query& other, int column);

  // True while there is a row.
  bool step();
  void run() {
    while (step()) {
    }
  }

  [[nodiscard]] int columns() const;
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] bool is_integer(int column) const;
  [[nodiscard]] std::int64_t i64(int column) const;
  [[nodiscard]] std::uint64_t u64(int column) const { return static_cast<std::uint64_t>(i64(column)); }
  [[nodiscard]] std::uint32_t u32(int column) const { return static_cast<std::uint32_t>(i64(column)); }
  [[nodiscard]] std::int32_t i32(int column) const { return static_cast<std::int32_t>(i64(column)); }
  [[nodiscard]] std::optional<double> number(int column) const;  // NULL: absent
  [[nodiscard]] std::string bytes(int column) const;             // text or blob
  [[nodiscard]] std::string_view view(int column) const;         // the same, until the next step
  [[nodiscard]] Connection& connection() const { return connection_; }

 private:
  void bind_null();
  void check_bind(int code) const;

  Connection& connection_;
  sqlite3_stmt* statement_;
  int next_ = 1;
};

}  // namespace scalewatch::history
