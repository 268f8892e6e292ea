#include "server/history/sqlite.h"

#include <cmath>
#include <limits>
#include <utility>

#include "server/engine/ports/history_store.h"
#include "server/history/repair_hint.h"
#include "server/history/schema.h"

namespace scalewatch::history {

namespace {

constexpr int kProgressOps = 1000;  // virtual machine steps between two looks at the clock: well under a millisecond
constexpr int kBusyTimeoutMs = 5000;

bool retryable(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN:
    case SQLITE_INTERRUPT:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Connection::Close::operator()(sqlite3* db) const {
  sqlite3_close_v2(db);
}
void Connection::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Connection::Connection(std::string path, int flags) : path_(std::move(path)) {
  sqlite3* db = nullptr;
  // Each connection is guarded by its owner, so SQLite's own mutexes would only cost.
  const int code = sqlite3_open_v2(path_.c_str(), &db, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  db_.reset(db);
  if (code != SQLITE_OK) fail("cannot open", code);
  sqlite3_extended_result_codes(db, 1);
  sqlite3_busy_timeout(db, kBusyTimeoutMs);
}

void Connection::fail(const char* doing, int code) const {
  // Some calls return a code and leave the connection's message as it was: sqlite3_backup_step, for one.
  const bool told = db_ && (sqlite3_errcode(db_.get()) & 0xff) == (code & 0xff);
  std::string cause = told ? sqlite3_errmsg(db_.get()) : sqlite3_errstr(code);
  if ((code & 0xff) == SQLITE_INTERRUPT) cause = "the read took longer than it may";
  if ((code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB) cause += repair_hint(path_);
  throw engine::StoreError(path_ + ": " + doing + ": " + cause, retryable(code));
}

void Connection::execute(const char* sql) {
  const int code = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail("cannot execute", code);
}

std::int64_t Connection::scalar(const char* sql) {
  Query query(*this, sql);
  const std::int64_t value = query.step() ? query.i64(0) : 0;
  query.run();
  return value;
}

sqlite3_stmt* Connection::prepare(std::string_view sql) {
  if (const auto found = statements_.find(sql); found != statements_.end()) return found->second.get();
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) fail("cannot prepare a statement", code);
  statements_[std::string(sql)].reset(statement);
  return statement;
}

int Connection::check_deadline(void* self) {
  const auto& deadline = static_cast<Connection*>(self)->deadline_;
  return deadline && std::chrono::steady_clock::now() > *deadline ? 1 : 0;
}

void Connection::set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline) {
  deadline_ = deadline;
  sqlite3_progress_handler(db_.get(), deadline ? kProgressOps : 0, deadline ? &Connection::check_deadline : nullptr, this);
}

std::int64_t Connection::changes() const {
  return sqlite3_changes64(db_.get());
}

std::int64_t Connection::last_rowid() const {
  return sqlite3_last_insert_rowid(db_.get());
}

bool Connection::in_transaction() const {
  return sqlite3_get_autocommit(db_.get()) == 0;
}

bool Connection::all_sealed() {
  if (!all_sealed_) all_sealed_ = scalar("PRAGMA user_version") >= kSealedVersion;
  return *all_sealed_;
}

bool Connection::read_only() const {
  return sqlite3_db_readonly(db_.get(), "main") == 1;
}

void Connection::rollback() noexcept {
  if (!in_transaction()) return;
  try {
    Query(*this, "ROLLBACK").run();  // prepared, for every read ends so
  } catch (...) {
    sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

Query::~Query() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void Query::check_bind(int code) const {
  if (code != SQLITE_OK) connection_.fail("cannot bind a value", code);
}

void Query::bind_null() {
  check_bind(sqlite3_bind_null(statement_, next_++));
}
void Query::bind(std::int64_t value) {
  check_bind(sqlite3_bind_int64(statement_, next_++, value));
}

void Query::bind(double value) {
  if (std::isnan(value)) {
    bind(std::string_view("NaN"));
  } else {
    check_bind(sqlite3_bind_double(statement_, next_++, value));
  }
}

void Query::bind(std::string_view text) {
  check_bind(sqlite3_bind_text64(statement_, next_++, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void Query::bind(Blob blob) {
  // A null pointer would bind NULL; an empty blob is a value.
  const char* data = blob.bytes.data() == nullptr ? "" : blob.bytes.data();
  check_bind(sqlite3_bind_blob64(statement_, next_++, data, blob.bytes.size(), SQLITE_STATIC));
}

void Query::bind_from(const Query& other, int column) {
  check_bind(sqlite3_bind_value(statement_, next_++, sqlite3_column_value(other.statement_, column)));
}

bool Query::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  connection_.fail("cannot read or write", code);
}

bool Query::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
bool Query::is_integer(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
}
int Query::columns() const {
  return sqlite3_column_count(statement_);
}
std::int64_t Query::i64(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::optional<double> Query::number(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_NULL:
      return std::nullopt;
    case SQLITE_TEXT:
      return std::numeric_limits<double>::quiet_NaN();
    default:
      return sqlite3_column_double(statement_, column);
  }
}

std::string_view Query::view(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return data == nullptr ? std::string_view()
                         : std::string_view(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

std::string Query::bytes(int column) const {
  return std::string(view(column));
}

BlobReader::~BlobReader() {
  sqlite3_blob_close(blob_);
}

bool BlobReader::open(std::int64_t rowid) {
  int code = SQLITE_OK;
  if (blob_ != nullptr && row_ == rowid) return true;
  row_ = rowid;
  if (blob_ != nullptr) {
    code = sqlite3_blob_reopen(blob_, rowid);
    if (code == SQLITE_OK) return true;
    sqlite3_blob_close(blob_);
    blob_ = nullptr;
  } else {
    code = sqlite3_blob_open(connection_.handle(), "main", table_, column_, rowid, 0, &blob_);
    if (code == SQLITE_OK) return true;
    blob_ = nullptr;
  }
  if ((code & 0xff) != SQLITE_ERROR) connection_.fail("cannot read", code);
  return false;  // no such row
}

std::size_t BlobReader::size() const {
  return static_cast<std::size_t>(sqlite3_blob_bytes(blob_));
}

bool BlobReader::read(std::size_t offset, std::size_t size, std::string& out) {
  if (offset + size > this->size()) return false;
  out.resize(size);
  const int code = sqlite3_blob_read(blob_, out.data(), static_cast<int>(size), static_cast<int>(offset));
  if (code != SQLITE_OK) connection_.fail("cannot read", code);
  return true;
}

}  // namespace scalewatch::history
