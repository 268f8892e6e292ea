// Pages that sinks never took: how they are kept, listed, bounded and sent again.
#include <gmock/gmock.h>

#include "server/history/sqlite.h"
#include "server/history/sqlite_store.h"
#include "tests/unit/history/fixtures.h"

namespace scalewatch::history {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Letters = engine::AlertReader::DeadLetters;

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kNow = 1'700'000'000'000;

engine::OutboxRow row(const std::string& key, const std::string& sink = "hook") {
  return {.key = key, .sink = sink, .alert_id = "a", .transition = "firing", .created_ms = 100, .alert = "bytes of " + key};
}
engine::OutboxUpdate given_up(const std::string& key, std::int64_t when, const std::string& sink = "hook") {
  return {.key = key,
          .sink = sink,
          .delivered = false,
          .tries = 60,
          .next_try_ms = kNever,
          .last_error = "HTTP 404",
          .given_up_ms = when,
          .again = false};
}

class DeadLetters : public testing::Test {
 protected:
  void commit(std::vector<engine::OutboxRow> rows, std::vector<engine::OutboxUpdate> updates) {
    engine::CommitBatch batch;
    batch.outbox = std::move(rows);
    batch.outbox_updates = std::move(updates);
    store_->commit(batch);
  }
  std::vector<std::string> keys(const Letters& which = {}, std::size_t limit = 100) {
    std::vector<std::string> out;
    for (const auto& letter : store_->dead_letters(which, limit)) out.push_back(letter.row.key + " " + letter.row.sink);
    return out;
  }
  void reopen() {
    store_.reset();
    store_ = SqliteStore::open(dir_.path);
  }

  TempDir dir_;
  std::unique_ptr<SqliteStore> store_ = SqliteStore::open(dir_.path);
};

TEST_F(DeadLetters, AreListedNewestFirstOverARestartUntilTheyAreSentAgain) {
  commit({row("a"), row("b"), row("c"), row("c", "other")},
         {given_up("b", kNow), given_up("a", kNow + 5), given_up("c", kNow, "other")});
  reopen();
  EXPECT_THAT(keys(), ElementsAre("a hook", "c other", "b hook"));
  EXPECT_THAT(keys({}, 1), ElementsAre("a hook"));
  Letters which;
  which.sink = "hook";
  EXPECT_THAT(keys(which), ElementsAre("a hook", "b hook"));
  which.after = Letters::After{kNow + 5, store_->dead_letters(which, 1).at(0).id};
  EXPECT_THAT(keys(which), ElementsAre("b hook"));
  which = {};
  which.key = "c";
  ASSERT_EQ(store_->dead_letters(which, 10).size(), 1U);
  const engine::DeadLetterRow letter = store_->dead_letters(which, 10).at(0);
  EXPECT_EQ(letter.row.alert, "bytes of c");
  EXPECT_EQ(letter.tries, 60U);
  EXPECT_EQ(letter.last_error, "HTTP 404");
  EXPECT_EQ(letter.given_up_ms, kNow);
  which = {};
  which.since_ms = kNow + 1;
  EXPECT_THAT(keys(which), ElementsAre("a hook"));
  EXPECT_EQ(store_->count_dead_letters(0), (std::map<std::string, std::uint64_t>{{"hook", 2}, {"other", 1}}));
  EXPECT_EQ(store_->due_outbox(kNever - 1, 10).size(), 1U);  // what was never tried

  engine::OutboxUpdate again = given_up("a", 0);
  again.tries = 0;
  again.next_try_ms = 0;
  commit({}, {again});
  EXPECT_THAT(keys(), ElementsAre("c other", "b hook"));
  ASSERT_EQ(store_->due_outbox(0, 10).size(), 2U);
  EXPECT_EQ(store_->due_outbox(0, 10).at(0).row.key, "a");
}

TEST_F(DeadLetters, WhatWasDeliveredGoesAgainOnlyWhenThatIsMeant) {
  commit({row("a")}, {{.key = "a", .sink = "hook", .delivered = true, .tries = 1, .next_try_ms = 0, .last_error = {}}});
  engine::OutboxUpdate again{
      .key = "a", .sink = "hook", .delivered = false, .tries = 0, .next_try_ms = 0, .last_error = "by ada"};
  commit({}, {again});
  EXPECT_THAT(store_->due_outbox(kNow, 10), IsEmpty());
  again.again = true;
  commit({}, {again});
  EXPECT_EQ(store_->due_outbox(kNow, 10).size(), 1U);
}

TEST_F(DeadLetters, AreBoundedByNumberWhateverTheClockSays) {
  std::vector<engine::OutboxRow> rows;
  std::vector<engine::OutboxUpdate> updates;
  const auto total = static_cast<std::int64_t>(engine::kMaxDeadLetters) + 20;
  for (std::int64_t i = 0; i < total; ++i) {
    rows.push_back(row(std::to_string(i)));
    updates.push_back(given_up(std::to_string(i), kNow + i));
  }
  commit(std::move(rows), std::move(updates));
  EXPECT_EQ(store_->count_dead_letters(0)["hook"], engine::kMaxDeadLetters);
  EXPECT_EQ(keys({}, engine::kMaxDeadLetters + 1).back(), "20 hook");
  commit({row("late")}, {given_up("late", kNow + engine::kDeadLettersKeptMs + total)});
  EXPECT_EQ(keys({}, 1).front(), "late hook");
  EXPECT_EQ(store_->count_dead_letters(kNow)["hook"], engine::kMaxDeadLetters);  // one of a clock that was ahead
  EXPECT_THAT(store_->due_outbox(kNever - 1, 10), IsEmpty());                    // those that are forgotten are not tried again
}

TEST_F(DeadLetters, ADamagedRowIsToldByItsSum) {
  commit({row("a"), row("b")}, {});
  store_.reset();
  {
    Connection connection((dir_.path / "history.db").string(), SQLITE_OPEN_READWRITE);
    connection.execute("UPDATE outbox SET alert = CAST('bytes of x' AS BLOB) WHERE key = 'a'");
  }
  store_ = SqliteStore::open(dir_.path);
  const auto due = store_->due_outbox(kNow, 10);
  ASSERT_EQ(due.size(), 2U);
  EXPECT_TRUE(due[0].damaged);
  EXPECT_FALSE(due[1].damaged);
}

TEST_F(DeadLetters, AFileOfAnOlderServerKeepsWhatItGaveUp) {
  commit({row("a"), row("b")}, {given_up("a", kNow)});
  store_.reset();
  {
    Connection connection((dir_.path / "history.db").string(), SQLITE_OPEN_READWRITE);
    connection.execute(
        "DROP INDEX outbox_dead; ALTER TABLE outbox DROP COLUMN given_up_ms; ALTER TABLE outbox DROP COLUMN crc");
  }
  store_ = SqliteStore::open(dir_.path);
  EXPECT_THAT(keys(), ElementsAre("a hook"));
  const auto due = store_->due_outbox(kNow, 10);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_FALSE(due[0].damaged);  // it has no sum
}

TEST_F(DeadLetters, WhatFiredLatelyIsFoundWhateverBecameOfIt) {
  engine::CommitBatch batch;
  for (const auto& [id, severity, fired] :
       std::vector<std::tuple<std::string, int, std::int64_t>>{{"old", 3, 100}, {"a", 1, 300}, {"b", 3, 200}, {"c", 2, 400}}) {
    batch.alerts.push_back({.id = id,
                            .run_uid = "r",
                            .rule = "R",
                            .severity = severity,
                            .state = 5,
                            .fired_ms = fired,
                            .changed_ms = fired,
                            .alert = id});
  }
  store_->commit(batch);
  std::vector<std::string> ids;
  for (const auto& alert : store_->fired_since(100, 10)) ids.push_back(alert.id);
  EXPECT_THAT(ids, ElementsAre("c", "a", "b"));
  EXPECT_EQ(store_->fired_since(100, 2).size(), 2U);
}

}  // namespace
}  // namespace scalewatch::history
