#include "server/engine/commit_batch.h"

#include <iterator>
#include <utility>
#include <vector>

namespace scalewatch::engine {

namespace {

template <class Row>
void append(std::vector<Row>& to, std::vector<Row>& from) {
  if (to.empty()) {
    to.swap(from);
  } else {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    from.clear();
  }
}

// An alert's id begins with its run's uid, and so do the keys of its deliveries.
std::string before_slash(const std::string& id) {
  return id.substr(0, id.find('/'));
}

template <class Row>
std::string run_of(const Row& row) {
  return row.run_uid;
}
std::string run_of(const OutboxRow& row) {
  return before_slash(row.alert_id);
}
std::string run_of(const OutboxUpdate& row) {
  return before_slash(row.key);
}
std::string run_of(const SilenceRow& /*row*/) {
  return {};
}

}  // namespace

std::size_t CommitBatch::bytes() const {
  constexpr std::size_t kRow = 64;  // a row's fixed columns and its share of the index, roughly
  std::size_t total = kRow * (runs.size() + incarnations.size() + outbox_updates.size());
  for (const auto& row : runs) total += row.overview.size();
  for (const auto& row : incarnations) total += row.hello.size();
  for (const auto& row : tables) total += kRow + row.delta.size();
  for (const auto& row : reports) total += kRow + row.payload.size();
  for (const auto& row : inputs) total += kRow + row.payload.size();
  for (const auto& row : snapshots) total += kRow + row.state.size();
  for (const auto& row : alerts) total += kRow + row.alert.size();
  for (const auto& row : outbox) total += kRow + row.alert.size();
  for (const auto& row : silences) total += kRow + row.silence.size();
  return total;
}

void append(CommitBatch& to, CommitBatch& from) {
  append(to.runs, from.runs);
  append(to.incarnations, from.incarnations);
  append(to.tables, from.tables);
  append(to.reports, from.reports);
  append(to.inputs, from.inputs);
  append(to.snapshots, from.snapshots);
  move_alerts(to, from);
}

void move_alerts(CommitBatch& to, CommitBatch& from) {
  append(to.alerts, from.alerts);
  append(to.outbox, from.outbox);
  append(to.outbox_updates, from.outbox_updates);
  append(to.silences, from.silences);
}

std::map<std::string, CommitBatch> by_run(CommitBatch batch) {
  std::map<std::string, CommitBatch> out;
  const auto divide = [&](auto rows) {
    for (auto& row : batch.*rows) {
      CommitBatch& part = out[run_of(row)];
      (part.*rows).push_back(std::move(row));
    }
  };
  divide(&CommitBatch::runs);
  divide(&CommitBatch::incarnations);
  divide(&CommitBatch::tables);
  divide(&CommitBatch::reports);
  divide(&CommitBatch::inputs);
  divide(&CommitBatch::snapshots);
  divide(&CommitBatch::alerts);
  divide(&CommitBatch::outbox);
  divide(&CommitBatch::outbox_updates);
  divide(&CommitBatch::silences);
  return out;
}

}  // namespace scalewatch::engine
