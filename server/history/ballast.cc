#include "server/history/ballast.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace scalewatch::history {

Ballast::Ballast(std::filesystem::path file, std::uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {
  std::error_code ignored;
  if (bytes_ == 0) {
    std::filesystem::remove(file_, ignored);
    return;
  }
  there_ = make();
  if (!there_) {
    spdlog::warn("{}: no room is kept for alerts on a full disk: {}", file_.string(), std::system_category().message(errno));
    // As if it had been given: history does not take what little is left.
    given_ = errno == ENOSPC;
  }
}

bool Ballast::make() {
  const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
  if (descriptor < 0) return false;
  struct stat found {};
  int error = 0;
  constexpr std::uint64_t kBlock = 512;  // of st_blocks
  const bool whole = ::fstat(descriptor, &found) == 0 && static_cast<std::uint64_t>(found.st_size) == bytes_ &&
                     static_cast<std::uint64_t>(found.st_blocks) * kBlock >= bytes_;
  if (!whole) error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes_));
  ::close(descriptor);
  if (error != 0) ::unlink(file_.c_str());
  errno = error;
  return error == 0;
}

std::uint64_t Ballast::room() const {
  struct statvfs disk {};
  if (::statvfs(file_.parent_path().c_str(), &disk) != 0) return 0;
  return static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
}

bool Ballast::give() {
  // Whatever the store refuses for then, it is not the room.
  if (!there_ || room() > bytes_) return false;
  if (::unlink(file_.c_str()) != 0) return false;
  there_ = false;
  given_ = true;
  spdlog::error("{}: given up, so that alerts find room on the full disk", file_.string());
  return true;
}

bool Ballast::take_back() {
  if (room() < 2 * bytes_ || !make()) return false;
  there_ = true;
  given_ = false;
  return true;
}

}  // namespace scalewatch::history
