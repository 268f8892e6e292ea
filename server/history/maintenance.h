// What is done to a data folder by hand: looking at it, copying it, checking and repairing it, making it small.
//
// On the folder and not through the server: it works when no server runs, which is when a damaged file needs it most, and it
// takes no call by which a client could read all or write files. Who may read the folder may copy it. Looking, copying and
// checking only read, each from one view of the file, and never hold up a server that runs; changing takes the folder's lock,
// so that server and repair keep out of each other's way. While a copy is made, what the server writes meanwhile stays in its
// write-ahead log.
//
// Functions throw StoreError with one line. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace scalewatch::history {

struct FolderStats {
  std::int64_t schema_version = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t log_bytes = 0;   // of the write-ahead log
  std::uint64_t free_bytes = 0;  // within the file
  std::uint64_t runs = 0;
  std::uint64_t running = 0;
  std::uint64_t streams = 0;
  std::uint64_t reports = 0;
  std::uint64_t payloads = 0;   // reports that are there as received
  std::uint64_t stretches = 0;  // groups of up to 128 reports that are in chunks
  std::uint64_t thinned = 0;    // of these: only summaries are left
  std::uint64_t in_chunks = 0;  // reports of the others
  std::uint64_t chunks = 0;
  std::uint64_t alerts = 0;
};
FolderStats folder_stats(const std::filesystem::path& directory);

// Called now and then with the share that is done; false ends the work with an error.
using Progress = std::function<bool(double share)>;

// Copies the history as it is at this moment to a file that must not exist. It appears once it is whole and on disk, for its
// owner only; it can be put in a data folder as history.db. Returns its bytes.
std::uint64_t back_up(const std::filesystem::path& directory, const std::filesystem::path& to, const Progress& progress);

struct Fault {
  std::string what;    // and where
  std::string repair;  // what was done; empty: nothing
};
struct Verified {
  std::uint64_t reports = 0;
  std::uint64_t stretches = 0;
  std::uint64_t chunks = 0;
  std::uint64_t records = 0;       // in chunks
  std::uint64_t faults_found = 0;  // of all
  std::uint64_t faults_left = 0;   // not repaired
  std::vector<Fault> faults;       // the first thousand
};
// Reads everything: the database's own structure, every stretch, chunk, summary and report. With `repair` what can be made anew
// is: summaries and attempts from what they sum up, chunks from reports that are still there as received, indexes; a chunk that
// can't is removed, so that its summary stands for it. Messages that can't be read are only told: nothing else holds them. A
// file that SQLite itself finds damaged is made anew first, from the rows that can be read; the damaged one stays beside it.
Verified verify_folder(const std::filesystem::path& directory, bool repair, const Progress& progress);

struct Compacted {
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
};
// Makes chunks of all reports and gives free space back to the file system.
Compacted compact_folder(const std::filesystem::path& directory);

}  // namespace scalewatch::history
