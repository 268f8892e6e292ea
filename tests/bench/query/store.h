// Big histories, made by the store's own writer: reports like those of fp16 training, committed and compacted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "server/history/sqlite_store.h"

namespace scalewatch::bench {

// A temporary folder that goes away with it, or one that is kept.
class Folder {
 public:
  explicit Folder(std::filesystem::path kept = {});  // empty: temporary
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool temporary_ = true;
};

struct StoreShape {
  std::string run = "big";
  std::uint32_t tensors = 0;
  std::uint64_t attempts = 0;
};

// A run of one rank with this many tensors and attempts. A NaN in one tensor of 10,000 records, a skip in one of 500 attempts.
// All but the newest attempts are in chunks.
void fill(history::SqliteStore& store, const StoreShape& shape);
// Runs without reports.
void fill_runs(history::SqliteStore& store, std::uint32_t runs);
// Without a thread: compaction runs when it is called.
std::unique_ptr<history::SqliteStore> open_store(const std::filesystem::path& folder);

}  // namespace scalewatch::bench
