// Reads the next batch out of the logs of runs. One call at a time, on any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/ports/history_store.h"
#include "server/history/clickhouse/batch.h"
#include "server/history/clickhouse/options.h"
#include "server/history/sqlite_store.h"

namespace scalewatch::clickhouse {

inline constexpr std::size_t kBatchBytes = std::size_t{64} << 20;  // payloads in one batch

// Tables of client starts, as the store has them.
class StreamTables {
 public:
  explicit StreamTables(history::SqliteStore& store) : store_(store) {}
  // One that has at least so many tensors, if the store has them.
  const std::vector<TensorKey>& of(const std::string& run_uid, std::uint32_t rank, const engine::Incarnation& incarnation,
                                   std::size_t at_least);
  // Those of other runs are read again when they are needed.
  template <class IsKept>
  void keep_only(const IsKept& is_kept) {
    std::erase_if(tables_, [&](const auto& run) { return !is_kept(run.first); });
  }

 private:
  history::SqliteStore& store_;
  std::map<std::string, std::map<std::pair<std::uint32_t, engine::Incarnation>, std::vector<TensorKey>>> tables_;  // by run_uid
};

// A batch that is ready to be sent, and what it took.
struct ReadyBatch {
  Batch batch;
  std::map<std::string, std::uint64_t> bytes;   // of payloads, by run
  std::map<std::string, std::uint64_t> to_pos;  // of runs that it has entries of
  std::set<std::string> whole;                  // runs of whose log it took all that there was
  std::string cut;                              // the run at whose entries it was full; empty: none
  bool again = false;                           // as it was about to be sent before a crash

  [[nodiscard]] bool empty() const { return batch.empty(); }
  void clear();
};

class BatchMaker {
 public:
  BatchMaker(const Options& options, history::SqliteStore& store)
      : batch_records_(options.batch_records), store_(store), tables_(store) {}

  // A run whose log goes on after `pos`; `intent` > pos: up to there it was about to be sent before a crash.
  struct Due {
    std::string run_uid;
    std::uint64_t term = 0;
    std::uint64_t pos = 0;
    std::uint64_t intent = 0;
  };
  // Fills `ready`, which is empty, in the order that it is sent in. What was about to be sent before a crash comes first and
  // alone, so that it is the same batch. On an exception it is empty, too.
  void make(std::vector<Due> due, ReadyBatch& ready);
  StreamTables& tables() { return tables_; }

 private:
  void read(const Due& run, ReadyBatch& ready);

  const std::uint64_t batch_records_;
  history::SqliteStore& store_;
  StreamTables tables_;
  std::string after_;  // the run that the next batch goes on after
};

}  // namespace scalewatch::clickhouse
