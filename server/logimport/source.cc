#include "server/logimport/source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "server/logimport/gunzip.h"

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kBlockBytes = 256 * 1024;

class Descriptor {
 public:
  explicit Descriptor(int fd, bool owned = true) : fd_(fd), owned_(owned) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)), owned_(other.owned_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    owned_ = other.owned_;
    return *this;
  }
  int get() const { return fd_; }

 private:
  void reset() {
    if (fd_ >= 0 && owned_) ::close(fd_);
  }
  int fd_;
  bool owned_;
};

std::string reason(const std::string& path) {
  return (path == "-" ? "standard input" : path) + ": " + std::strerror(errno);
}

Descriptor open_log(const std::string& path) {
  if (path == "-") return Descriptor(STDIN_FILENO, false);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw SourceError(reason(path));
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && S_ISDIR(status.st_mode)) throw SourceError(path + ": is a directory");
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return file;
}

std::uint64_t size_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
}

class LogSource {
 public:
  LogSource(const SourceOptions& options, LogReader& reader) : options_(options), reader_(reader), block_(kBlockBytes) {}

  SourceReport run(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      struct stat status {};
      const bool regular = path != "-" && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
      if (!regular) total_known_ = false;
      if (regular) total_ += static_cast<std::uint64_t>(status.st_size);
    }
    for (std::size_t i = 0; i < paths.size() && !stopped(); ++i) {
      path_ = paths[i];
      index_ = static_cast<std::uint32_t>(i);
      read_file(options_.follow && i + 1 == paths.size());
    }
    return std::move(report_);
  }

 private:
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed); }

  void begin(Descriptor file) {
    file_ = std::move(file);
    offset_ = 0;
    gunzip_.reset();
    reader_.begin_file(index_);
  }

  void end() {
    if (gunzip_ && !gunzip_->complete())
      report_.notes.push_back(path_ + ": the compressed data is cut off or damaged; read up to there");
    reader_.end_file();
  }

  void read_file(bool follow) {
    begin(open_log(path_));
    while (!stopped()) {
      if (read_block()) continue;
      if (follow && path_ == "-") follow = false;  // a pipe that has ended stays so
      if (follow && gunzip_) {
        report_.notes.push_back(path_ + ": is compressed and can't be followed");
        follow = false;
      }
      if (follow) reader_.pause();
      if (options_.idle) options_.idle();
      if (!follow) break;
      wait();
      look_again();
    }
    end();
  }

  // False at the end of what there is.
  bool read_block() {
    if (path_ == "-" && !wait_for_input()) return false;
    const ssize_t got = ::read(file_.get(), block_.data(), block_.size());
    if (got < 0) {
      if (errno == EINTR) return !stopped();
      throw SourceError(reason(path_));
    }
    if (got == 0) return false;
    const std::string_view bytes(block_.data(), static_cast<std::size_t>(got));
    if (offset_ == 0 && Gunzip::recognises(bytes)) gunzip_ = std::make_unique<Gunzip>();
    offset_ += bytes.size();
    done_ += bytes.size();
    if (gunzip_) {
      gunzip_->feed(bytes, [this](std::string_view plain) { reader_.feed(plain); });
    } else {
      reader_.feed(bytes);
    }
    if (options_.progress) options_.progress(done_, total_known_ ? std::max(total_, done_) : 0);
    return true;
  }

  // A pipe may be silent for hours: the stop must be seen meanwhile, and what has come must be told.
  bool wait_for_input() {
    pollfd waiting{file_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 0) == 0) {
      reader_.pause();
      if (options_.idle) options_.idle();
    }
    while (!stopped()) {
      const int ready = ::poll(&waiting, 1, static_cast<int>(options_.poll.count()));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) throw SourceError(reason(path_));
    }
    return false;
  }

  void wait() {
    if (!stopped()) ::poll(nullptr, 0, static_cast<int>(options_.poll.count()));
  }

  // Whether the name leads to another file now, or this one has become shorter.
  void look_again() {
    struct stat here {};
    struct stat there {};
    if (::fstat(file_.get(), &here) != 0) return;
    const bool named = ::stat(path_.c_str(), &there) == 0;
    const bool replaced = named && (here.st_ino != there.st_ino || here.st_dev != there.st_dev);
    const bool truncated = static_cast<std::uint64_t>(here.st_size) < offset_;
    if (truncated) {
      end();
      Descriptor file = std::move(file_);
      if (::lseek(file.get(), 0, SEEK_SET) < 0) throw SourceError(reason(path_));
      begin(std::move(file));
    } else if (replaced && static_cast<std::uint64_t>(here.st_size) == offset_) {
      Descriptor next(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
      if (next.get() < 0) return;  // gone again: look later
      end();
      total_ += size_of(next.get());
      begin(std::move(next));
    }
  }

  const SourceOptions& options_;
  LogReader& reader_;
  SourceReport report_;
  std::vector<char> block_;
  std::string path_;
  std::uint32_t index_ = 0;
  Descriptor file_{-1};
  std::uint64_t offset_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  bool total_known_ = true;
  std::unique_ptr<Gunzip> gunzip_;
};

}  // namespace

SourceReport read_logs(const std::vector<std::string>& paths, const SourceOptions& options, LogReader& reader) {
  return LogSource(options, reader).run(paths);
}

}  // namespace scalewatch::logimport
