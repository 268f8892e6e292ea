// How far the shared history has what is in a store, kept in that store (schema.cc: feed_runs, feed_streams, shared_floors).
//
// What is written here is durable with a later commit: after a power loss a little is sent again, which changes nothing there.
// Thread-safe; throws StoreError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "server/history/sqlite_store.h"

namespace scalewatch::history {

class FeedState {
 public:
  using Stream = std::tuple<std::string, std::uint32_t, engine::Incarnation>;  // run_uid, rank
  struct Progress {
    std::uint64_t pos = 0;
    std::uint64_t intent = 0;               // > pos: so far goes what was being sent
    std::optional<std::uint64_t> term = 0;  // SharedFeed::term_of
  };

  explicit FeedState(SqliteStore& store) : store_(store) {}

  Progress progress(const std::string& run_uid);
  // Of all streams of a run that is stored.
  std::map<Stream, std::uint64_t> streams(const std::string& run_uid);
  // Runs of whose log something was not sent.
  std::vector<std::string> behind();

  // A run's row and its alerts, as they are and as they were sent last; absent: it is not known that they were.
  struct RowMark {
    std::string run_uid;
    std::uint32_t now = 0;
    std::optional<std::uint32_t> sent;
  };
  std::optional<RowMark> row_mark(const std::string& run_uid);
  // Of the runs after this one, in order of run_uid.
  std::vector<RowMark> row_marks(const std::string& after, std::size_t limit);
  // They were sent as they were then, by run_uid.
  void rows_sent(const std::map<std::string, std::uint32_t>& marks);

  // What is about to be sent: up to these places.
  void intend(const std::map<std::string, std::uint64_t>& to_pos);
  // It was: up to these places and seqs.
  void sent(const std::map<std::string, std::uint64_t>& to_pos, const std::map<Stream, std::uint64_t>& seqs);

  // The store misses commits that were durable: of each run it is noted how far its log goes, until it is owned, imported or
  // trusted. Durable with a later commit.
  void doubt_all();
  std::vector<std::string> doubted();
  void trust(const std::string& run_uid);
  // The last place of a run's log that is here; of one that is doubted, that was here then.
  std::uint64_t last_place(const std::string& run_uid);

  // What is here is fed under this term from now on.
  void owned(const std::string& run_uid, std::uint64_t term);
  // Everything of the run up to this place in its log, and all of its attempts by segment below these, came from there, and is
  // of this term.
  void imported(const std::string& run_uid, std::uint64_t term, std::uint64_t pos,
                const std::map<std::uint32_t, std::uint64_t>& floors, const std::map<Stream, std::uint64_t>& seqs);

 private:
  SqliteStore& store_;
};

// Attempts of a segment before this one are to be asked of the shared history: those that were never here, and those of which
// only summaries are left. 0: none.
std::uint64_t shared_floor(Connection& connection, std::int64_t run, std::uint32_t segment);

}  // namespace scalewatch::history
