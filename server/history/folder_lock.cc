#include "server/history/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <system_error>

#include "server/engine/ports/history_store.h"

namespace scalewatch::history {

namespace {

std::string cause(int error) {
  return std::system_category().message(error);
}

std::string holder(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t size = pread(descriptor, text.data(), text.size() - 1, 0);
  std::string pid;
  for (ssize_t i = 0; i < size && std::isdigit(static_cast<unsigned char>(text[i])) != 0; ++i) pid += text[i];
  return pid.empty() ? "" : " (pid " + pid + ")";
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw engine::StoreError(directory.string() + ": cannot make the data folder: " + error.message(), false);
  const std::string path = (directory / "scalewatchd.lock").string();
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    throw engine::StoreError(directory.string() + ": the data folder is not writable: " + cause(errno), false);
  }
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int code = errno;
    const std::string why =
        code == EWOULDBLOCK ? "in use by another scalewatchd" + holder(descriptor_) : "cannot lock: " + cause(code);
    ::close(descriptor_);
    throw engine::StoreError(directory.string() + ": " + why, false);
  }
  // For people and for the message above; the lock itself does not need it.
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(descriptor_, 0) != 0 || pwrite(descriptor_, pid.data(), pid.size(), 0) < 0) {
    const int code = errno;
    ::close(descriptor_);
    throw engine::StoreError(path + ": cannot write: " + cause(code), code == ENOSPC);
  }
}

FolderLock::~FolderLock() {
  ::close(descriptor_);
}

}  // namespace scalewatch::history
