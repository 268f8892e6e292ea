// Checks a history file from end to end (see verify_folder in maintenance.h). Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/history/chunk_row.h"
#include "server/history/maintenance.h"
#include "server/history/sqlite.h"
#include "server/history/stretch.h"

namespace scalewatch::history {

class Verifier {
 public:
  // With `repair` the connection may write, and nobody else does.
  Verifier(Connection& connection, bool repair, const Progress& progress)
      : connection_(connection), repair_(repair), progress_(progress) {}

  Verified run();

 private:
  struct Stretch {
    StretchPlace place;
    std::uint64_t first_seq = 0;
    std::uint64_t last_seq = 0;
    bool thinned = false;
    std::string attempts;
    std::string detail;
  };
  void fault(std::string what, std::string repaired = {});
  void check_structure();
  // Rows whose run, client start or report is not there.
  void check_owners();
  void recover_runs();
  std::string uid_of_lost(const std::string& name);
  void check_stretches();
  bool next_stretch(std::int64_t after, Stretch& stretch);
  void check_stretch(const Stretch& stretch);
  void check_attempts(const Stretch& stretch, const std::string& where);
  void check_block(const Stretch& stretch, std::uint32_t block, const std::string& where);
  // That scores say what the chunk does; those that an older server did not make are no fault.
  void check_scores(const Stretch& stretch, const ChunkRow& chunk, const std::string& what);
  // Removes a chunk that can't be read; an empty one stays where its summary stands for it.
  void give_up(const Stretch& stretch, std::uint32_t block, bool summary_stays);
  // Tables of tensors; run before what needs them.
  void check_tables();
  // Messages that can't be parsed. `sql` takes the id to go on after, and gives id, name and bytes.
  template <class Message>
  void check_messages(const char* sql, const std::string& what, bool has_seals = true);
  void check_reports();
  // Rows of numbers that are not as they were stored. `sql` takes `key` columns to go on after and gives these, then what is
  // checked; `what` says which rows they are.
  void check_rows(const char* table, const char* sql, int key, const std::string& what);
  // The chunk that a stored blob holds, made anew; absent when it can't be read.
  std::optional<ChunkRow> read_chunk(const Stretch& stretch, std::uint32_t block, std::string_view blob);
  // The same made from reports as received; absent unless all are still there.
  std::optional<ChunkRow> rebuilt(const Stretch& stretch, std::uint32_t block);
  const std::vector<TableTensor>& table(std::int64_t stream);

  Connection& connection_;
  const bool repair_;
  const Progress& progress_;
  Verified result_;
  std::set<std::int64_t> broken_tables_;  // streams
  std::int64_t table_stream_ = -1;
  std::vector<TableTensor> table_;
};

}  // namespace scalewatch::history
