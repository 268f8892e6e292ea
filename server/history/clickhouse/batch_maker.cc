#include "server/history/clickhouse/batch_maker.h"

#include <algorithm>

#include "server/history/clickhouse/keys.h"

namespace scalewatch::clickhouse {

const std::vector<TensorKey>& StreamTables::of(const std::string& run_uid, std::uint32_t rank,
                                               const engine::Incarnation& incarnation, std::size_t at_least) {
  auto& table = tables_[run_uid][{rank, incarnation}];
  if (table.size() >= at_least) return table;
  table.clear();
  for (const auto& row : store_.tables(run_uid, rank, incarnation)) {
    v1::TableDelta delta;
    if (!delta.ParseFromString(row.delta)) break;
    table.resize(
        std::max<std::size_t>(table.size(), std::size_t{delta.first_id()} + static_cast<std::size_t>(delta.infos_size())));
    std::size_t id = delta.first_id();
    for (const auto& info : delta.infos()) table[id++] = {tensor_key(info.name(), info.role()), info.numel()};
  }
  return table;
}

void ReadyBatch::clear() {
  batch.clear();
  bytes.clear();
  to_pos.clear();
  whole.clear();
  cut.clear();
  again = false;
}

void BatchMaker::make(std::vector<Due> due, ReadyBatch& ready) {
  try {
    ready.clear();
    ready.again = std::any_of(due.begin(), due.end(), [](const Due& run) { return run.intent > run.pos; });
    if (ready.again) std::erase_if(due, [](const Due& run) { return run.intent <= run.pos; });
    // In turn: the one after the last one that was cut short comes first.
    const auto next = std::find_if(due.begin(), due.end(), [&](const Due& run) { return run.run_uid > after_; });
    std::rotate(due.begin(), next, due.end());
    for (const Due& run : due) {
      read(run, ready);
      if (ready.cut.empty()) continue;
      after_ = ready.cut;
      break;
    }
    ready.batch.finish();
  } catch (...) {
    ready.clear();  // half of a batch is none: all of it is read again
    throw;
  }
}

void BatchMaker::read(const Due& run, ReadyBatch& ready) {
  Batch& batch = ready.batch;
  batch.begin_run(run.run_uid, run.term, run.pos,
                  [this, uid = run.run_uid](std::uint32_t rank, const engine::Incarnation& incarnation, std::size_t at_least)
                      -> const std::vector<TensorKey>& { return tables_.of(uid, rank, incarnation, at_least); });
  bool all = true;
  store_.read_log_while(run.run_uid, run.pos, history::SqliteStore::Thinned::kAsRows,
                        [&](const engine::HistoryStore::LogEntry& entry) {
                          const std::uint64_t at = entry.report ? entry.report->pos : entry.input->pos;
                          if (ready.again && at > run.intent) {
                            all = false;
                            return false;
                          }
                          batch.add(entry);
                          if (entry.report) ready.bytes[run.run_uid] += entry.report->payload.size();
                          const bool full = batch.record_count() >= batch_records_ || batch.bytes() >= kBatchBytes;
                          if (!full || ready.again) return true;
                          ready.cut = run.run_uid;
                          all = false;
                          return false;
                        });
  const std::uint64_t reached = batch.pos();
  batch.end_run();
  if (all) ready.whole.insert(run.run_uid);
  if (reached > run.pos) ready.to_pos[run.run_uid] = reached;
}

}  // namespace scalewatch::clickhouse
