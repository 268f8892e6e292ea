// Knows whether the store is the one that was left: the same file, its own write-ahead log, every commit that was durable.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "server/history/sqlite.h"
#include "server/history/store_mark.h"

namespace scalewatch::history {

// What the store lost before this start, as far as its mark tells.
struct StoreLoss {
  std::uint64_t commits = 0;       // since the last start, by this one's account; 0 = none
  std::int64_t since_ms = 0;       // newest commit that is there; 0 = none is
  std::int64_t until_ms = 0;       // newest commit that was durable
  std::uint64_t commits_ever = 0;  // of this store, this start's included
  bool unmarked = false;           // no mark lay beside it: there may be such
  [[nodiscard]] bool may_miss() const { return commits > 0 || unmarked; }
};

// Looks at the files before SQLite does, who would apply any write-ahead log that lies there: one that is not of this
// history.db (put back, swapped, the rest of a file that is gone) is moved aside, for applying it would break the file.
void set_foreign_log_aside(const std::filesystem::path& database, const std::optional<Mark>& mark);

// Counts commits in the store and beside it. Not thread-safe.
class StoreWatch {
 public:
  // Of an open store with its schema. Tells and notes what is lost against `mark`. Throws StoreError
  // when commits are lost and what is left is not sound, or when the store takes nothing and not for a full or failing disk.
  StoreWatch(Connection& writer, const std::filesystem::path& database, const std::optional<Mark>& mark);
  ~StoreWatch();
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;

  // Within a transaction: this is the next commit. Throws a retryable StoreError when history.db or its write-ahead log does
  // not lie where it was opened any more: the commit would be gone with the server.
  void count(Connection& writer);
  // That transaction is durable.
  void counted();
  [[nodiscard]] const StoreLoss& loss() const { return loss_; }

 private:
  // Which file a name stands for. No other gets the numbers while SQLite has the file open.
  struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const FileId&) const = default;
  };
  static std::optional<FileId> file_at(const std::string& path);

  std::uint64_t log_id();
  // The name under which a file of the store is not there any more; empty: all are in their places.
  [[nodiscard]] std::string missing() const;

  const std::filesystem::path database_;
  const std::optional<FileId> database_id_;
  MarkWriter marks_;
  Mark mark_;  // as last written
  std::int64_t next_ms_ = 0;
  int log_ = -1;  // descriptor of the write-ahead log
  std::optional<FileId> log_file_;
  StoreLoss loss_;
};

}  // namespace scalewatch::history
