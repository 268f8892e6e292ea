// Reports that wait on disk for the server, when it is away longer than the send buffer's memory lasts. They outlive the
// trainer: the next start of the same run and rank with the same directory finds them and sends them first.
//
// On disk: <directory>/<run>-<crc>.<rank>.<order>-<incarnation>/ per incarnation that ever spooled, mode 0700, its files 0600
// (see spool_file.h). Segments of about 4 MiB, so that acks free disk.
//
// What is promised:
// - kill -9 at any instant loses at most the report that was being written. Nothing is synced: a power failure may also cut
//   what was written in the last seconds; the death of the process does not.
// - Damage is never sent and never stops a start. A report whose bytes changed, or all that follows a torn head in a segment,
//   comes back from read() as a loss.
// - max_bytes and keep_free_bytes are checked before every write. Others who write to the same disk at the same moment can
//   undercut the floor by one report each.
// - Folders that a living process holds are not touched, links are not followed. Folders of other users, and files that the
//   spool did not make, are left alone.
//
// All of it belongs to one thread. Nothing throws but std::bad_alloc. A forked child may destroy the objects, which leaves the
// disk as it is, and nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client_lib/src/spool_file.h"
#include "client_lib/src/spool_lock.h"
#include "client_lib/src/types.h"

namespace scalewatch::client {

struct SpoolOptions {
  std::filesystem::path directory;       // made when it is missing; empty = no spool. Should be on a local disk
  std::uint64_t max_bytes = 1ULL << 30;  // of all files of this run and rank, those of earlier incarnations included
  std::chrono::seconds max_age = std::chrono::hours(7 * 24);  // by the wall clock; older reports are not sent any more
  std::uint64_t keep_free_bytes = 1ULL << 30;                 // of the file system, as statvfs has it for this user
};

// Whose reports they are.
struct SpoolOwner {
  std::string run;
  std::uint32_t rank = 0;
  std::string incarnation;              // 16 random bytes
  std::uint64_t incarnation_order = 0;  // Unix ns at start
  std::string hello;                    // opaque: what a later start needs to greet the server in the owner's name
};

struct SpoolItem {
  std::uint64_t first_seq = 0;
  std::uint64_t last_seq = 0;  // differs from first_seq in losses only
  std::uint64_t attempt = 0;
  bool full = false;
  LossCause cause = LossCause::kNone;
  std::string message;  // empty = a loss
};

// What is common to the spool that is being written and to a leftover: a range of seqs without a gap.
class SpoolLog {
 public:
  SpoolLog(SpoolLog&&) = default;
  SpoolLog& operator=(SpoolLog&&) = delete;
  // Deletes the folder when it is empty(), else leaves it to a later start and unlocks it.
  ~SpoolLog();

  // The item that holds seq, without what drop_through() passed. A loss where the reports can't be had any more: of kInternal
  // when they were damaged, of kSpoolLimit when expire() gave them up. Nothing when seq is outside, or when it can't be read at
  // this moment (no descriptors left; error() says so). Reading in order, or the same again, costs a few system calls.
  std::optional<SpoolItem> read(std::uint64_t seq);
  // The server holds everything up to seq for good. Files wholly below are deleted.
  void drop_through(std::uint64_t seq);
  // Gives up what is older than max_age: its disk is freed and read() returns it as a loss from now on. Returns how many
  // reports were given up by this call. Cheap when nothing is.
  std::uint64_t expire(std::chrono::system_clock::time_point now);
  // Deletes everything, sent or not. Nothing else may follow.
  void remove();

  [[nodiscard]] bool empty() const { return parts_.empty(); }
  [[nodiscard]] std::uint64_t first_seq() const { return empty() ? 0 : parts_.front().first_seq; }
  [[nodiscard]] std::uint64_t last_seq() const { return last_seq_; }  // also when it was dropped; 0 = never held any
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }        // on disk
  [[nodiscard]] const SpoolOwner& owner() const { return owner_; }
  // One line about the last call that could not do its work, for a person.
  [[nodiscard]] const std::string& error() const { return error_; }

 protected:
  // A range of seqs: within one segment, or lost.
  struct Part {
    std::uint64_t first_seq = 0;
    std::uint64_t last_seq = 0;
    LossCause lost = LossCause::kNone;
    std::uint64_t segment = 0;  // first seq that the file was made with; 0 when lost
    [[nodiscard]] bool on_disk() const { return lost == LossCause::kNone; }
  };

  SpoolLog(SpoolOptions options, SpoolOwner owner);
  bool fail(std::string_view what, int error = 0);
  // Deletes all that the spool made in the folder, and the folder if nothing else is in it.
  void delete_folder();
  // Lets go of the folder, whatever is in it.
  void forget_folder();

  SpoolOptions options_;
  SpoolOwner owner_;
  std::string folder_;  // its name in options_.directory
  Fd directory_;        // the folder, once it is there
  SpoolLock lock_;
  std::deque<Part> parts_;  // without a gap
  std::uint64_t last_seq_ = 0;
  std::uint64_t bytes_ = 0;
  std::string error_;

 private:
  SpoolRead locate(const Part& part, std::uint64_t seq, SpoolHead& head);
  void cut(std::size_t index);
  void give_up(std::size_t index, std::uint64_t through);
  void delete_segment(std::uint64_t segment);

  // Where the last record was found: reading goes on from there.
  Fd reader_;
  std::uint64_t reader_segment_ = 0;
  std::uint64_t reader_offset_ = 0;
  std::uint64_t reader_seq_ = 0;
};

// The spool of this incarnation. The folder appears with the first append.
class Spool : public SpoolLog {
 public:
  Spool(SpoolOptions options, SpoolOwner owner) : SpoolLog(std::move(options), std::move(owner)) {}

  // Keeps a part of the tensor table (opaque, not empty) for a later start. To be called in the order of the table, before the
  // first report that speaks of its tensors. false: as append().
  bool append_table(std::string_view message);
  // item continues last_seq(), or is anywhere beyond it when the spool is empty. false: nothing was kept, because a bound is
  // reached or the disk failed; the next call tries anew.
  bool append(const SpoolItem& item, std::chrono::system_clock::time_point now);

  // Parts of the table that lie in the folder: fewer than were appended when somebody removed it.
  [[nodiscard]] std::uint64_t table_parts() const { return table_parts_; }

 private:
  bool open(std::uint64_t bytes);
  void forget_removed_folder();
  bool has_room(int directory, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t bytes_of_others() const;

  Fd writer_;
  std::uint64_t writer_segment_ = 0;
  std::uint64_t writer_end_ = 0;
  std::uint64_t table_end_ = 0;
  std::uint64_t table_parts_ = 0;
  std::uint64_t others_ = 0;  // bytes of other incarnations when the last segment began
};

// What an earlier incarnation left. Held, and so closed to everybody else, as long as the object lives.
class Leftover : public SpoolLog {
 public:
  // The next part of the tensor table. kEnd: there are no more. kDamaged: neither this one nor what follows can be had.
  // kNotNow: try again.
  SpoolRead next_table(std::string& message);
  // next_table() starts over.
  void rewind_table();
  // A last report was torn when its process or machine died; its range is not known.
  [[nodiscard]] bool torn() const { return torn_; }

 private:
  friend class LeftoverFinder;
  Leftover(SpoolOptions options, SpoolOwner owner) : SpoolLog(std::move(options), std::move(owner)) {}

  bool torn_ = false;
  Fd table_;
  std::uint64_t table_offset_ = 0;
  std::uint64_t table_parts_ = 0;
};

struct Leftovers {
  std::vector<Leftover> spools;    // oldest first
  std::vector<std::string> notes;  // a line for each folder that had to be given up
};

// At most 16 of the oldest that nobody living holds; call again when they are sent. Empty ones are deleted on the way.
Leftovers find_leftovers(const SpoolOptions& options, std::string_view run, std::uint32_t rank);

}  // namespace scalewatch::client
