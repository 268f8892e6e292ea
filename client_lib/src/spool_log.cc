// The half of the spool that reads and frees.
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

SpoolLog::SpoolLog(SpoolOptions options, SpoolOwner owner)
    : options_(std::move(options)), owner_(std::move(owner)), folder_(folder_name(owner_)) {
  // The trainer may change its working directory.
  std::error_code ignored;
  if (!options_.directory.empty()) options_.directory = std::filesystem::absolute(options_.directory, ignored);
}

SpoolLog::~SpoolLog() {
  if (empty()) delete_folder();
}

bool SpoolLog::fail(std::string_view what, int error) {
  error_ = "spool " + options_.directory.string() + ": " + std::string(what);
  if (error != 0) error_ += ": " + std::generic_category().message(error);
  return false;
}

std::optional<SpoolItem> SpoolLog::read(std::uint64_t seq) {
  // A pass either returns or turns the part with seq into a loss.
  for (int pass = 0; pass < 2; ++pass) {
    const auto it = std::ranges::lower_bound(parts_, seq, {}, &Part::last_seq);
    if (it == parts_.end() || seq < it->first_seq) return std::nullopt;
    if (!it->on_disk()) return SpoolItem{it->first_seq, it->last_seq, 0, false, it->lost, {}};
    SpoolHead head;
    SpoolItem item;
    SpoolRead found = locate(*it, seq, head);
    if (found == SpoolRead::kOk) {
      item = {std::max(head.first_seq, it->first_seq),
              std::min(head.last_seq, it->last_seq),
              head.attempt,
              head.full,
              head.cause < kLossCauses ? static_cast<LossCause>(head.cause) : LossCause::kInternal,
              {}};
      switch (read_message(reader_.get(), reader_offset_, head, item.message)) {
        case SpoolRead::kOk:
          return item;
        case SpoolRead::kNotNow:
          found = SpoolRead::kNotNow;
          break;
        default:
          // The head is sound, so what follows can still be read.
          return SpoolItem{item.first_seq, item.last_seq, item.attempt, false, LossCause::kInternal, {}};
      }
    }
    if (found == SpoolRead::kNotNow) {
      fail("cannot be read now", errno);
      return std::nullopt;
    }
    cut(static_cast<std::size_t>(it - parts_.begin()));
  }
  return std::nullopt;
}

// Moves the reader to the record that holds seq, or to the first damage before it.
SpoolRead SpoolLog::locate(const Part& part, std::uint64_t seq, SpoolHead& head) {
  if (reader_segment_ != part.segment || !reader_ || reader_seq_ > seq) {
    reader_segment_ = part.segment;
    reader_offset_ = kSpoolMagicBytes;
    reader_seq_ = part.segment;
    const SpoolRead opened = open_spool_file(directory_.get(), segment_name(part.segment), reader_);
    if (opened != SpoolRead::kOk) {
      reader_.reset();
      return opened == SpoolRead::kNotNow ? opened : SpoolRead::kDamaged;
    }
  }
  while (true) {  // ends with the file, whose records have at least a head each
    const SpoolRead read = read_head(reader_.get(), reader_offset_, reader_seq_, head);
    if (read != SpoolRead::kOk) return read == SpoolRead::kNotNow ? read : SpoolRead::kDamaged;
    if (head.last_seq >= seq) return SpoolRead::kOk;
    reader_offset_ += head.record_bytes();
    reader_seq_ = head.last_seq + 1;
  }
}

// What is left of a part from where the reader met damage is lost.
void SpoolLog::cut(std::size_t index) {
  Part& part = parts_[index];
  Part lost{std::max(reader_seq_, part.first_seq), part.last_seq, LossCause::kInternal, 0};
  if (lost.first_seq > part.first_seq) {
    part.last_seq = lost.first_seq - 1;
    parts_.insert(parts_.begin() + static_cast<std::ptrdiff_t>(index) + 1, lost);
  } else {
    const std::uint64_t segment = part.segment;
    part = lost;
    delete_segment(segment);
  }
}

void SpoolLog::drop_through(std::uint64_t seq) {
  while (!parts_.empty() && parts_.front().last_seq <= seq) {
    const Part part = parts_.front();
    parts_.pop_front();
    if (part.on_disk()) delete_segment(part.segment);
  }
  if (!parts_.empty()) parts_.front().first_seq = std::max(parts_.front().first_seq, seq + 1);
}

std::uint64_t SpoolLog::expire(std::chrono::system_clock::time_point now) {
  const auto oldest =
      std::chrono::duration_cast<std::chrono::milliseconds>((now - options_.max_age).time_since_epoch()).count();
  const auto is_old = [this, oldest](const Part& part, SpoolHead& head, SpoolRead& read) {
    read = locate(part, part.first_seq, head);
    return read == SpoolRead::kOk && head.time_ms < oldest;
  };
  std::uint64_t given_up = 0;
  std::size_t i = 0;
  while (i < parts_.size()) {
    if (!parts_[i].on_disk()) {
      ++i;
      continue;
    }
    Part part = parts_[i];
    SpoolHead head;
    SpoolRead read = SpoolRead::kOk;
    if (!is_old(part, head, read)) {
      if (read != SpoolRead::kDamaged) break;
      cut(i);
      continue;
    }
    std::uint64_t through = std::min(head.last_seq, part.last_seq);
    if (i + 1 < parts_.size() && parts_[i + 1].on_disk() && is_old(parts_[i + 1], head, read)) {
      through = part.last_seq;  // the next segment begins with an old report: no need to look at each of this one
    }
    while (through < part.last_seq) {
      part.first_seq = through + 1;
      if (!is_old(part, head, read)) break;
      through = std::min(head.last_seq, part.last_seq);
    }
    given_up += through - parts_[i].first_seq + 1;
    give_up(i, through);
    i = 0;
  }
  return given_up;
}

// Turns the begin of a part into a loss of kSpoolLimit.
void SpoolLog::give_up(std::size_t index, std::uint64_t through) {
  const Part lost{parts_[index].first_seq, through, LossCause::kSpoolLimit, 0};
  const std::uint64_t segment = parts_[index].segment;
  if (through == parts_[index].last_seq) {
    parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(index));
    delete_segment(segment);
  } else {
    parts_[index].first_seq = through + 1;
  }
  if (index > 0 && parts_[index - 1].lost == LossCause::kSpoolLimit) {
    parts_[index - 1].last_seq = through;
  } else {
    parts_.insert(parts_.begin() + static_cast<std::ptrdiff_t>(index), lost);
  }
}

void SpoolLog::delete_segment(std::uint64_t segment) {
  if (!lock_.held()) return;
  if (segment == reader_segment_) reader_.reset();
  const std::string name = segment_name(segment);
  struct stat about = {};
  if (fstatat(directory_.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) about.st_size = 0;
  if (delete_spool_file(directory_.get(), name)) {
    bytes_ -= std::min(bytes_, static_cast<std::uint64_t>(about.st_size));
  } else {
    fail("cannot delete " + name, errno);
  }
}

void SpoolLog::remove() {
  parts_.clear();
  delete_folder();
}

void SpoolLog::delete_folder() {
  if (!lock_.held()) return;
  reader_.reset();
  // The identity goes first: without it the rest means nothing to a later start. The lock goes last.
  delete_spool_file(directory_.get(), "identity");
  if (const auto names = list_directory(directory_.get(), is_spool_file)) {
    for (const std::string& name : *names) {
      if (name != "lock") delete_spool_file(directory_.get(), name);
    }
  }
  unlinkat(directory_.get(), "lock", 0);
  rmdir((options_.directory / folder_).c_str());  // stays when something else is in it
  forget_folder();
}

void SpoolLog::forget_folder() {
  reader_.reset();
  directory_.reset();
  lock_.release();
  bytes_ = 0;
}

}  // namespace scalewatch::client
