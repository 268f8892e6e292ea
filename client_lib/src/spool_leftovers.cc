// What earlier incarnations left in the spool.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "client_lib/src/spool.h"
#include "client_lib/src/spool_folder.h"

namespace scalewatch::client {

constexpr std::size_t kMostLeftovers = 16;  // each holds up to four descriptors

class LeftoverFinder {
 public:
  LeftoverFinder(const SpoolOptions& options, std::string_view run, std::uint32_t rank)
      : options_(options), run_(run), rank_(rank) {}

  Leftovers find() {
    const Fd parent(::open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent) return {};
    const std::string prefix = folder_prefix(run_, rank_);
    const auto names = list_directory(parent.get(), [&](std::string_view name) { return name.starts_with(prefix); });
    if (!names) return {};
    for (const std::string& name : *names) {
      if (found_.spools.size() == kMostLeftovers) break;
      look_at(parent.get(), name);
    }
    return std::move(found_);
  }

 private:
  void look_at(int parent, const std::string& name) {
    Fd folder(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    struct stat about = {};
    if (!folder || fstat(folder.get(), &about) != 0 || about.st_uid != geteuid()) return;
    SpoolLock lock;
    if (lock.take(folder.get(), "lock", false) != SpoolLock::Outcome::kHeld) return;

    SpoolOwner owner;
    const SpoolRead identity = read_identity(folder.get(), owner);
    if (identity == SpoolRead::kNotNow) return;
    if (identity == SpoolRead::kOk && (owner.run != run_ || owner.rank != rank_)) return;  // a name with the same crc
    Leftover left(options_, std::move(owner));
    left.folder_ = name;
    left.directory_ = std::move(folder);
    left.lock_ = std::move(lock);
    left.bytes_ = directory_bytes(left.directory_.get());
    if (identity == SpoolRead::kDamaged) {
      note(name, "does not say any more whose reports it holds");
    } else if (identity == SpoolRead::kOk) {
      if (!read_segments(left)) {
        left.lock_.release();
        return;
      }
      if (!left.empty()) {
        found_.spools.push_back(std::move(left));
        return;
      }
      if (left.torn_) note(name, "held one report, which was torn");
    }
    // Nothing is left of it, or its process died while it made the folder: left's end deletes it.
  }

  static SpoolRead read_identity(int folder, SpoolOwner& owner) {
    Fd file;
    SpoolHead head;
    std::string message;
    SpoolRead read = open_spool_file(folder, "identity", file);
    if (read != SpoolRead::kOk) return read;
    read = read_head(file.get(), kSpoolMagicBytes, 1, head);
    if (read == SpoolRead::kOk) read = read_message(file.get(), kSpoolMagicBytes, head, message);
    if (read != SpoolRead::kOk) return read == SpoolRead::kNotNow ? read : SpoolRead::kDamaged;
    auto unpacked = unpack_owner(message);
    if (!unpacked) return SpoolRead::kDamaged;
    owner = std::move(*unpacked);
    return SpoolRead::kOk;
  }

  // Only the last segment is read now. A segment before it ends where the next begins; damage shows when it is sent.
  static bool read_segments(Leftover& left) {
    const auto names =
        list_directory(left.directory_.get(), [](std::string_view name) { return segment_seq(name).has_value(); });
    if (!names) return false;
    for (std::size_t i = 0; i < names->size(); ++i) {
      const std::uint64_t first = *segment_seq((*names)[i]);
      std::uint64_t last = first - 1;
      if (i + 1 < names->size()) {
        last = *segment_seq((*names)[i + 1]) - 1;
      } else {
        const SpoolRead end = scan(left.directory_.get(), (*names)[i], last);
        if (end == SpoolRead::kNotNow) return false;
        left.torn_ = end == SpoolRead::kDamaged;
      }
      left.last_seq_ = last;
      if (last >= first) left.parts_.push_back({first, last, LossCause::kNone, first});
    }
    return true;
  }

  // Moves last on to the last sound record. kEnd: nothing follows it.
  static SpoolRead scan(int folder, const std::string& name, std::uint64_t& last) {
    Fd file;
    SpoolRead read = open_spool_file(folder, name, file);
    SpoolHead head;
    for (std::uint64_t offset = kSpoolMagicBytes; read == SpoolRead::kOk;) {
      read = read_head(file.get(), offset, last + 1, head);
      if (read != SpoolRead::kOk) break;
      last = head.last_seq;
      offset += head.record_bytes();
    }
    return read;
  }

  void note(const std::string& name, std::string_view what) {
    found_.notes.push_back("spool " + (options_.directory / name).string() + " " + std::string(what) + ": deleted");
  }

  SpoolOptions options_;
  std::string_view run_;
  std::uint32_t rank_;
  Leftovers found_;
};

Leftovers find_leftovers(const SpoolOptions& options, std::string_view run, std::uint32_t rank) {
  if (options.directory.empty()) return {};
  return LeftoverFinder(options, run, rank).find();
}

SpoolRead Leftover::next_table(std::string& message) {
  if (!table_) {
    const SpoolRead opened = open_spool_file(directory_.get(), "table", table_);
    if (opened != SpoolRead::kOk) {
      table_.reset();
      return opened;
    }
    table_offset_ = kSpoolMagicBytes;
    table_parts_ = 0;
  }
  SpoolHead head;
  SpoolRead read = read_head(table_.get(), table_offset_, table_parts_ + 1, head);
  if (read == SpoolRead::kOk) read = read_message(table_.get(), table_offset_, head, message);
  if (read != SpoolRead::kOk) return read;
  table_offset_ += head.record_bytes();
  ++table_parts_;
  return read;
}

void Leftover::rewind_table() {
  table_.reset();
}

}  // namespace scalewatch::client
