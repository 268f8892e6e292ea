// The half of the spool that writes.
#include "client_lib/src/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client_lib/src/spool_folder.h"

namespace scalewatch::client {
namespace {

constexpr std::uint64_t kSegmentBytes = 4U << 20;
constexpr int kCreate = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;

// What is missing of the path. Whether it worked shows when the directory is opened.
void make_directories(const std::filesystem::path& path) {
  std::filesystem::path part;
  for (const std::filesystem::path& name : path) {
    part /= name;
    mkdir(part.c_str(), 0700);
  }
}

}  // namespace

bool Spool::has_room(int directory, std::uint64_t bytes) {
  if (bytes_ + others_ + bytes > options_.max_bytes && others_ > 0) others_ = bytes_of_others();
  if (bytes_ + others_ + bytes > options_.max_bytes) return fail("is full (its largest size is reached)");
  struct statvfs disk = {};
  if (fstatvfs(directory, &disk) != 0) return fail("cannot tell the free space", errno);
  const std::uint64_t block = disk.f_frsize;
  const std::uint64_t free = disk.f_bavail * block;
  const std::uint64_t need = bytes + 4 * block;  // blocks that are begun: the file's last one, its inode, its directory's
  if (free < need || free - need < options_.keep_free_bytes) return fail("is paused (too little free space on its disk)");
  return true;
}

// Looked at once a segment: other incarnations are leftovers, which only shrink, or are about to be fenced.
std::uint64_t Spool::bytes_of_others() const {
  const std::string prefix = folder_prefix(owner_.run, owner_.rank);
  const Fd parent(::open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent) return 0;
  const auto names =
      list_directory(parent.get(), [&](std::string_view name) { return name.starts_with(prefix) && name != folder_; });
  if (!names) return 0;
  std::uint64_t bytes = 0;
  for (const std::string& name : *names) {
    const Fd folder(openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (folder) bytes += directory_bytes(folder.get());
  }
  return bytes;
}

// Somebody deleted the folder, or put another one in its place: what lay in it is lost, and it is made anew.
void Spool::forget_removed_folder() {
  struct stat about = {};
  if (!directory_ || (fstat(directory_.get(), &about) == 0 && about.st_nlink > 0)) return;
  for (Part& part : parts_) {
    if (part.on_disk()) part = {part.first_seq, part.last_seq, LossCause::kInternal, 0};
  }
  writer_.reset();
  forget_folder();
}

// Makes the folder, unless it is there, if it has room for so many bytes.
bool Spool::open(std::uint64_t bytes) {
  if (lock_.held()) {
    forget_removed_folder();
    if (lock_.held()) return true;
  }
  if (directory_) return fail("belongs to another process");
  if (options_.directory.empty()) return fail("has no directory");
  make_directories(options_.directory);
  const Fd parent(::open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent) return fail("cannot be opened", errno);
  const std::string identity = pack_owner(owner_);
  others_ = bytes_of_others();
  if (!has_room(parent.get(), bytes + kSpoolMagicBytes + kSpoolHeadBytes + identity.size())) return false;

  if (mkdirat(parent.get(), folder_.c_str(), 0700) != 0) return fail("cannot make its folder", errno);
  directory_ = Fd(openat(parent.get(), folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  const auto locked = directory_ ? lock_.take(directory_.get(), "lock", true) : SpoolLock::Outcome::kGone;
  if (locked != SpoolLock::Outcome::kHeld) {
    fail("cannot lock its folder", errno);
    // Unless a start elsewhere took it for a dead one's just now: then it deletes it.
    if (locked == SpoolLock::Outcome::kFailed) unlinkat(directory_.get(), "lock", 0);
    directory_.reset();
    unlinkat(parent.get(), folder_.c_str(), AT_REMOVEDIR);
    return false;
  }
  const Fd file(openat(directory_.get(), "identity.new", kCreate | O_TRUNC, 0600));
  bytes_ = file ? write_record(file.get(), 0, {.first_seq = 1, .last_seq = 1}, identity) : 0;
  if (bytes_ == 0 || renameat(directory_.get(), "identity.new", directory_.get(), "identity") != 0) {
    fail("cannot write its identity", errno);
    delete_folder();
    return false;
  }
  table_end_ = table_parts_ = 0;
  return true;
}

bool Spool::append_table(std::string_view message) {
  if (message.size() > kSpoolMaxMessage) return fail("does not take so large a table");
  const std::uint64_t bytes = (table_end_ == 0 ? kSpoolMagicBytes : 0) + kSpoolHeadBytes + message.size();
  if (!open(bytes) || !has_room(directory_.get(), bytes)) return false;
  const Fd file(openat(directory_.get(), "table", kCreate, 0600));
  const std::uint64_t seq = table_parts_ + 1;
  const std::uint64_t end = file ? write_record(file.get(), table_end_, {.first_seq = seq, .last_seq = seq}, message) : 0;
  if (end == 0) return fail("cannot write the table", errno);
  bytes_ += end - table_end_;
  table_end_ = end;
  ++table_parts_;
  return true;
}

bool Spool::append(const SpoolItem& item, std::chrono::system_clock::time_point now) {
  const bool continues = empty() ? item.first_seq > last_seq_ : item.first_seq == last_seq_ + 1;
  if (!continues || item.last_seq < item.first_seq) return fail("does not take reports out of order");
  if (item.message.size() > kSpoolMaxMessage) return fail("does not take so large a report");
  const SpoolHead head{.first_seq = item.first_seq,
                       .last_seq = item.last_seq,
                       .attempt = item.attempt,
                       .time_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count(),
                       .full = item.full,
                       .cause = static_cast<std::uint8_t>(item.cause)};
  std::uint64_t bytes = kSpoolHeadBytes + item.message.size();
  // The last part is another one when the segment was sent, given up or met damage.
  const bool goes_on = writer_ && !empty() && parts_.back().on_disk() && parts_.back().segment == writer_segment_ &&
                       writer_end_ + bytes <= std::min(kSegmentBytes, file_size_limit());
  if (!goes_on) bytes += kSpoolMagicBytes;
  if (!open(bytes)) return false;
  if (!goes_on) {
    others_ = bytes_of_others();
    writer_segment_ = item.first_seq;
    writer_end_ = 0;
    writer_.reset();
  }
  if (!has_room(directory_.get(), bytes)) return false;
  if (!goes_on) writer_ = Fd(openat(directory_.get(), segment_name(writer_segment_).c_str(), kCreate | O_TRUNC, 0600));
  const std::uint64_t end = writer_ ? write_record(writer_.get(), writer_end_, head, item.message) : 0;
  if (end == 0) {
    fail("cannot write", errno);
    if (!goes_on) {
      writer_.reset();
      delete_spool_file(directory_.get(), segment_name(writer_segment_));
    }
    return false;
  }
  bytes_ += end - writer_end_;
  writer_end_ = end;
  last_seq_ = item.last_seq;
  if (goes_on) {
    parts_.back().last_seq = item.last_seq;
  } else {
    parts_.push_back({item.first_seq, item.last_seq, LossCause::kNone, writer_segment_});
  }
  return true;
}

}  // namespace scalewatch::client
