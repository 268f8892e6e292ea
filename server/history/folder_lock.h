// Keeps a second scalewatchd out of a data folder.
#pragma once

#include <filesystem>
#include <string>

namespace scalewatch::history {

// Holds an exclusive lock on DIR/scalewatchd.lock, which also names the holder's pid. The kernel lets go of it when the process
// ends, however it ends.
class FolderLock {
 public:
  // Makes the folder when it is not there. Throws StoreError that names the path and the cause: not writable, or held by
  // another scalewatchd.
  explicit FolderLock(const std::filesystem::path& directory);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace scalewatch::history
