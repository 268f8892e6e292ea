#include "server/history/store_watch.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <random>
#include <system_error>

#include "server/engine/ports/history_store.h"
#include "server/history/repair_hint.h"

namespace scalewatch::history {

namespace {

constexpr std::size_t kLogHeader = 32;
constexpr std::size_t kLogIdAt = 16;

struct State {
  std::string uid;
  std::uint64_t commits = 0;
  std::int64_t committed_ms = 0;
  std::uint64_t lost = 0;
};

std::optional<State> read_state(Connection& connection) {
  Query query(connection, "SELECT uid, commits, committed_ms, lost FROM store_state WHERE id = 1");
  if (!query.step()) return std::nullopt;
  return State{query.bytes(0), query.u64(1), query.i64(2), query.u64(3)};
}

// Absent when there is none; `readable` is false when the file is damaged where it should be.
std::optional<State> state_of(const std::string& file, int flags, bool* readable = nullptr) {
  try {
    Connection connection(file, flags);
    sqlite3_db_config(connection.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);  // only looks
    // A server that counted no commits made no such table.
    const char* known = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'store_state'";
    return connection.scalar(known) == 0 ? std::nullopt : read_state(connection);
  } catch (const engine::StoreError&) {
    if (readable != nullptr) *readable = false;
    return std::nullopt;
  }
}

// history.db as it is without its write-ahead log.
std::optional<State> state_alone(const std::filesystem::path& database, bool* readable) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(database).string()) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '.' ||
                       c == '-' || c == '_';
    plain ? uri += c : uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return state_of(uri + "?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, readable);
}

bool is_sound(Connection& connection) {
  try {
    Query check(connection, "PRAGMA quick_check(1)");
    return check.step() && check.bytes(0) == "ok";
  } catch (const engine::StoreError&) {
    return false;
  }
}

std::uint64_t id_in(int descriptor) {
  std::array<unsigned char, kLogHeader> header{};
  if (::pread(descriptor, header.data(), header.size(), 0) != static_cast<ssize_t>(header.size())) return 0;
  std::uint64_t id = 0;
  for (std::size_t i = 0; i < sizeof id; ++i) id = id << 8 | header[kLogIdAt + i];
  return id;
}

std::string when(std::int64_t ms) {
  if (ms <= 0) return "the beginning";
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(ms / 1000)));
}

std::string new_uid() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// Whether a log that the mark does not name goes on from where the mark was: it may, for a mark can be older than the log.
bool continues(const std::filesystem::path& database, const Mark& mark, const std::optional<State>& alone) {
  const auto both = state_of(database.string(), SQLITE_OPEN_READONLY);
  if (!both || both->uid != mark.store) return false;
  if (both->commits >= mark.commit) return true;
  // Commits are lost in any case; the log that is here must at least not take the file back.
  if (alone && both->commits < alone->commits) return false;
  Connection connection(database.string(), SQLITE_OPEN_READONLY);
  sqlite3_db_config(connection.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return is_sound(connection);
}

// What may pass by itself while the server runs. Not, for one, what SQLite calls read-only: a read-only disk is refused before
// (the folder's lock, the file itself), so it is a history.db-shm that cannot be written, and no commit ever would be.
bool may_pass(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_FULL || primary == SQLITE_IOERR || primary == SQLITE_BUSY;
}

}  // namespace

void set_foreign_log_aside(const std::filesystem::path& database, const std::optional<Mark>& mark) {
  const std::string log = database.string() + "-wal";
  std::error_code error;
  const auto size = std::filesystem::file_size(log, error);
  if (!mark || error || size <= kLogHeader) return;
  const int descriptor = ::open(log.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  const std::uint64_t id = id_in(descriptor);
  ::close(descriptor);

  const bool same_log = id == mark->log_id;
  const auto database_size = std::filesystem::file_size(database, error);
  bool fits = false;
  if (!error && database_size > 0) {
    bool readable = true;
    const auto alone = state_alone(database, &readable);
    if (same_log) {
      // Damaged or not, it was there with this log; an older one was not.
      const bool ours = alone ? alone->uid == mark->store && alone->commits >= mark->base : mark->base == 0;
      fits = !readable || ours;
    } else if (alone && alone->uid != mark->store) {
      fits = true;  // another store in its place, with a log of its own
    } else {
      const auto both = alone ? std::nullopt : state_of(database.string(), SQLITE_OPEN_READONLY);
      fits = (both && both->uid != mark->store) || continues(database, *mark, alone);
    }
  }
  if (fits) return;
  const std::string aside = fmt::format(
      "{}.unfit-{}", log,
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  std::filesystem::rename(log, aside, error);
  if (error) throw engine::StoreError(log + ": not of this history.db, and cannot be moved aside: " + error.message(), false);
  std::filesystem::remove(database.string() + "-shm", error);
  spdlog::error("{}: the write-ahead log beside it is not its own (swapped, or one of the two was put back): moved to {}",
                database.string(), aside);
}

StoreWatch::StoreWatch(Connection& writer, const std::filesystem::path& database, const std::optional<Mark>& mark)
    : database_(database), database_id_(file_at(database.string())), marks_(database.parent_path() / "history.mark") {
  auto found = read_state(writer);
  State state = found.value_or(State{new_uid()});
  loss_.unmarked = !mark && found;
  const bool same = mark && mark->store == state.uid;
  if (mark && (!same || mark->commit > state.commits)) {
    loss_.commits = same ? mark->commit - state.commits : mark->commit;
    loss_.since_ms = same ? state.committed_ms : 0;
    loss_.until_ms = mark->time_ms;
    if (same) {
      spdlog::error(
          "{}: {} durable commits are missing, those after {} until {}: the file or its write-ahead log was removed, damaged "
          "or "
          "put back; clients that are still there will tell what was in them",
          database.string(), loss_.commits, when(loss_.since_ms), when(loss_.until_ms));
    } else {
      spdlog::error("{}: not the history that was here: the {} commits until {} are missing; it was {}", database.string(),
                    loss_.commits, when(loss_.until_ms), found ? "put in its place" : "removed or emptied, and is made anew");
    }
    if (found && !is_sound(writer)) {
      throw engine::StoreError(database.string() + ": commits are missing and what is left is damaged" + repair_hint(database),
                               false);
    }
  }
  mark_ = {state.uid, std::max(state.commits, same ? mark->commit : 0), state.committed_ms, 0, 0};
  loss_.commits_ever = state.lost + loss_.commits;
  const std::uint64_t known_log = same ? mark->log_id : 0;
  const std::uint64_t known_base = same ? mark->base : 0;
  // Bound to this file before anything else is, so that the log which begins now is known after a power cut.
  try {
    writer.execute("BEGIN IMMEDIATE");
    count(writer);
    writer.execute("COMMIT");
  } catch (const engine::StoreError& error) {
    const int code = sqlite3_extended_errcode(writer.handle());
    writer.rollback();
    if (!error.retryable) throw;
    if (!may_pass(code)) {
      throw engine::StoreError(
          fmt::format("{} (can {}-shm be written? if it is no file, remove it)", error.what(), database.string()), false);
    }
    spdlog::warn("{}: commits are counted from the next one on", error.what());  // a full disk must not keep the server down
    return;
  }
  mark_.log_id = log_id();
  // Which commits the file holds without its log is known of a log that was known before.
  mark_.base = mark_.log_id == known_log ? known_base : 0;
  ++mark_.commit;
  mark_.time_ms = next_ms_;
  marks_.begin(mark_);
}

StoreWatch::~StoreWatch() {
  if (log_ >= 0) ::close(log_);
}

std::optional<StoreWatch::FileId> StoreWatch::file_at(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) return FileId{found.st_dev, found.st_ino};
  // Names that cannot be looked up for another cause tell nothing of the file.
  if (errno == ENOENT || errno == ENOTDIR) return FileId{};
  return std::nullopt;
}

std::string StoreWatch::missing() const {
  const auto gone = [](const std::string& path, const std::optional<FileId>& known) {
    const auto now = known ? file_at(path) : std::nullopt;
    return now && *now != *known;
  };
  if (gone(database_.string(), database_id_)) return database_.string();
  const std::string log = database_.string() + "-wal";
  return gone(log, log_file_) ? log : "";
}

std::uint64_t StoreWatch::log_id() {
  // The file stays the same one for as long as the store is open.
  if (log_ < 0) {
    log_ = ::open((database_.string() + "-wal").c_str(), O_RDONLY | O_CLOEXEC);
    struct stat found {};
    if (log_ >= 0 && ::fstat(log_, &found) == 0) log_file_ = FileId{found.st_dev, found.st_ino};
  }
  return log_ < 0 ? 0 : id_in(log_);
}

void StoreWatch::count(Connection& writer) {
  if (const std::string name = missing(); !name.empty()) {
    throw engine::StoreError(name +
                                 ": removed, moved or replaced under the running server, which stores nothing more: restart " +
                                 "the server, or put the same file back",
                             true);
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  next_ms_ = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  Query(writer,
        "INSERT INTO store_state (id, uid, commits, committed_ms, lost) VALUES (1, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "commits = excluded.commits, committed_ms = excluded.committed_ms, lost = excluded.lost",
        mark_.store, mark_.commit + 1, next_ms_, loss_.commits_ever)
      .run();
}

void StoreWatch::counted() {
  const std::uint64_t id = log_id();
  // A log that began anew: all before it is in the file.
  if (id != mark_.log_id) mark_.base = mark_.commit;
  mark_.log_id = id;
  ++mark_.commit;
  mark_.time_ms = next_ms_;
  marks_.write(mark_);
}

}  // namespace scalewatch::history
