// Whether a file is another one than before, or was written to. Cheap enough to ask every second.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace scalewatch::auth {

struct FileStamp {
  std::uint64_t inode = 0;  // 0: it is not there
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  std::int64_t size = 0;

  static FileStamp of(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return {};
    const auto ns = [](const timespec& time) { return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec; };
    return {status.st_ino, ns(status.st_mtim), ns(status.st_ctim), status.st_size};
  }
  bool operator==(const FileStamp&) const = default;
};

}  // namespace scalewatch::auth
