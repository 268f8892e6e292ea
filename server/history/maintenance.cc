#include "server/history/maintenance.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "server/engine/ports/history_store.h"
#include "server/history/folder_lock.h"
#include "server/history/salvage.h"
#include "server/history/schema.h"
#include "server/history/sqlite_store.h"
#include "server/history/verifier.h"

namespace scalewatch::history {

namespace {

constexpr int kBackupPages = 512;  // between two looks at whether to go on: 8 MB

std::string existing(const std::filesystem::path& directory) {
  const auto file = directory / "history.db";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw engine::StoreError(file.string() + ": there is no history", false);
  return file.string();
}

// One that knows the file's schema. Reads only.
std::unique_ptr<Connection> reader(const std::string& path) {
  auto connection = std::make_unique<Connection>(path, SQLITE_OPEN_READONLY);
  const std::int64_t version = connection->scalar("PRAGMA user_version");
  const auto refuse = [&](const std::string& why) { throw engine::StoreError(path + ": " + why, false); };
  if (connection->scalar("PRAGMA application_id") != kApplicationId) refuse("not a history");
  const std::string is_of = "schema version " + std::to_string(version);
  if (version > kSchemaVersion) refuse(is_of + " is of a newer scalewatchd: use the scalewatch that came with it");
  if (version < kOldestUsed) refuse(is_of + " is of an older scalewatchd: this one's brings it up to date when it starts");
  return connection;
}

std::uint64_t size_or_none(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

void flush_file(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  const int code = errno;
  if (file >= 0) ::close(file);
  if (!done) throw engine::StoreError(path.string() + ": cannot flush: " + std::system_category().message(code), true);
}

[[noreturn]] void exists_already(const std::filesystem::path& to) {
  throw engine::StoreError(to.string() + " exists: name a file that does not", false);
}

// A file beside `to` under a name that nobody else has, for its owner only; goes away unless it becomes `to`.
class PartFile {
 public:
  explicit PartFile(const std::filesystem::path& to) : to_(to), path_(to.string() + ".part-XXXXXX") {
    const int file = ::mkostemp(path_.data(), O_CLOEXEC);
    if (file < 0) fail(errno);
    ::close(file);
  }
  ~PartFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

  // Never in the place of a file that was made meanwhile.
  void become_whole() {
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, to_.c_str(), RENAME_NOREPLACE) == 0) {
      path_.clear();  // the name is anyone's again
      return;
    }
    if (errno != EINVAL && errno != ENOSYS) fail(errno);
    // A file system that cannot do that.
    if (::link(path_.c_str(), to_.c_str()) != 0) fail(errno);
    ::unlink(std::exchange(path_, {}).c_str());
  }

 private:
  [[noreturn]] void fail(int code) const {
    if (code == EEXIST) exists_already(to_);
    throw engine::StoreError(to_.string() + ": " + std::system_category().message(code), code == ENOSPC);
  }

  const std::filesystem::path to_;
  std::string path_;
};

// Copies page by page within one read transaction of `from`.
void copy_pages(Connection& from, Connection& to, const Progress& progress) {
  from.execute("BEGIN");
  from.scalar("SELECT count(*) FROM sqlite_schema");  // from here on the view stands
  const std::unique_ptr<sqlite3_backup, int (*)(sqlite3_backup*)> copy(
      sqlite3_backup_init(to.handle(), "main", from.handle(), "main"), sqlite3_backup_finish);
  if (!copy) to.fail("cannot write a copy", sqlite3_errcode(to.handle()));
  for (double done = 0;;) {
    if (!progress(done)) throw engine::StoreError("interrupted", true);
    const int code = sqlite3_backup_step(copy.get(), kBackupPages);
    if (code == SQLITE_DONE) break;
    if (code != SQLITE_OK) to.fail("cannot copy", code);
    const int pages = sqlite3_backup_pagecount(copy.get());
    done = pages == 0 ? 1 : 1 - static_cast<double>(sqlite3_backup_remaining(copy.get())) / pages;
  }
  progress(1);
}

}  // namespace

FolderStats folder_stats(const std::filesystem::path& directory) {
  const std::string path = existing(directory);
  const auto connection = reader(path);
  const auto count = [&](const char* sql) { return static_cast<std::uint64_t>(connection->scalar(sql)); };
  connection->execute("BEGIN");  // all figures are of one moment
  FolderStats stats;
  stats.schema_version = connection->scalar("PRAGMA user_version");
  stats.runs = count("SELECT count(*) FROM runs");
  stats.running = count("SELECT count(*) FROM runs WHERE status = 1");
  stats.streams = count("SELECT count(*) FROM streams");
  stats.reports = count("SELECT count(*) FROM reports");
  stats.payloads = count("SELECT count(*) FROM payloads");
  stats.stretches = count("SELECT count(*) FROM stretches");
  stats.thinned = stats.stretches - count("SELECT count(*) FROM stretches WHERE thinned = 0");
  stats.in_chunks = count("SELECT coalesce(sum(reports), 0) FROM stretches WHERE thinned = 0");
  stats.chunks = count("SELECT count(*) FROM chunks");
  stats.alerts = count("SELECT count(*) FROM alerts");
  stats.free_bytes = count("PRAGMA freelist_count") * count("PRAGMA page_size");
  stats.file_bytes = size_or_none(path);
  stats.log_bytes = size_or_none(path + "-wal");
  return stats;
}

std::uint64_t back_up(const std::filesystem::path& directory, const std::filesystem::path& to, const Progress& progress) {
  const auto from = reader(existing(directory));
  std::error_code error;
  // Not followed: what a dangling link names is not ours to make.
  if (std::filesystem::exists(std::filesystem::symlink_status(to, error))) exists_already(to);
  PartFile part(to);
  {
    Connection copy(part.path(), SQLITE_OPEN_READWRITE);
    copy.execute("PRAGMA synchronous = OFF");
    copy_pages(*from, copy, progress);
  }
  flush_file(part.path());
  const std::uint64_t bytes = size_or_none(part.path());
  part.become_whole();
  flush_file(to.has_parent_path() ? to.parent_path() : std::filesystem::path("."));
  return bytes;
}

Verified verify_folder(const std::filesystem::path& directory, bool repair, const Progress& progress) {
  const std::string path = existing(directory);
  if (!repair) {
    const auto connection = reader(path);
    return Verifier(*connection, false, progress).run();
  }
  const FolderLock lock(directory);
  std::vector<Fault> salvaged;
  if (needs_salvage(path)) salvage(path, salvaged);
  Connection connection(path, SQLITE_OPEN_READWRITE);
  prepare_schema(connection, path);
  Verified verified = Verifier(connection, true, progress).run();
  verified.faults_found += salvaged.size();
  for (const auto& fault : salvaged) verified.faults_left += fault.repair.empty() ? 1 : 0;
  verified.faults.insert(verified.faults.begin(), salvaged.begin(), salvaged.end());
  return verified;
}

Compacted compact_folder(const std::filesystem::path& directory) {
  const std::string path = existing(directory);
  Compacted result;
  result.bytes_before = size_or_none(path) + size_or_none(path + "-wal");
  StoreOptions options;
  options.compaction.thread = false;
  {
    const auto store = SqliteStore::open(directory, options);
    store->compactor().run_now(true);
  }
  result.bytes_after = size_or_none(path) + size_or_none(path + "-wal");
  return result;
}

}  // namespace scalewatch::history
