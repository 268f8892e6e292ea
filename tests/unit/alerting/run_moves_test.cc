// Runs that move between servers, or are read back: their open alerts become those of their open findings, and whoever was told
// of an alert hears of its end, once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/alert_book.h"
#include "tests/unit/alerting/kept_alerts.h"
#include "tests/unit/alerting/samples.h"

namespace scalewatch::alerting {
namespace {

using Change = domain::FindingEvent::Change;
using domain::Severity;
using testing::ElementsAre;
using testing::IsEmpty;
using Told = std::vector<std::string>;

constexpr std::int64_t kHour = 3'600'000;

// A server's alerting, and what its store has.
struct Place {
  explicit Place(bool people = false) {
    SinkConfig sink;
    sink.name = "sink";
    sink.type = "webhook";
    sink.min_severity = Severity::kInfo;
    sinks = people ? std::vector{sink} : each_alone({sink});
    if (people) sinks[0].group = true;
    restart();
  }
  void restart() {
    book = std::make_unique<AlertBook>(sinks, BookOptions{}, clock, nullptr);
    book->load(store);
  }
  engine::CommitBatch staged(Change change) {
    domain::Finding finding = sample_finding(Severity::kWarning);
    finding.open = change != Change::kResolved;
    engine::CommitBatch batch;
    book->stage(sample_run(), {{change, finding}}, batch);
    return batch;
  }
  Told stage(Change change) { return store.commit(staged(change)); }
  // The run was read back, and the finding is open there, or is not.
  Told reconcile(bool open, bool settled) {
    engine::CommitBatch batch;
    const std::vector<domain::Finding> findings(open ? 1 : 0, sample_finding(Severity::kWarning));
    book->reconcile(sample_run(), findings, settled, batch);
    return store.commit(batch);
  }
  Told leave() { return store.commit(book->leave_run("uid1")); }
  Told take(std::int64_t heard_ms = 0) { return store.commit(book->take_run("uid1", heard_ms)); }
  // As an import does it.
  void bring(const KeptAlerts& shared) { store.rows = shared.rows; }
  Told pages_for(std::int64_t ms) {
    Told told;
    for (const std::int64_t end = clock.now + ms; clock.now < end;) {
      clock.now += 100;
      engine::CommitBatch batch;
      std::vector<v1::Alert> changed;
      book->turn(batch, changed);
      for (std::string& each : store.commit(batch)) told.push_back(std::move(each));
    }
    return told;
  }
  const engine::AlertRow& row() const { return store.rows.begin()->second; }
  v1::Alert alert() const {
    v1::Alert out;
    EXPECT_TRUE(out.ParseFromString(row().alert));
    return out;
  }

  TestClock clock;
  std::vector<SinkConfig> sinks;
  KeptAlerts store;
  std::unique_ptr<AlertBook> book;
};

TEST(RunMoves, WhereAlertsAreThoseOfTheFindingsNothingHappens) {
  Place one;
  EXPECT_THAT(one.stage(Change::kOpened), ElementsAre("sink firing"));
  one.restart();
  const auto before = one.row().changed_ms;
  EXPECT_THAT(one.reconcile(true, false), IsEmpty());
  EXPECT_THAT(one.reconcile(true, true), IsEmpty());
  EXPECT_EQ(one.row().changed_ms, before);
  EXPECT_THAT(one.stage(Change::kResolved), ElementsAre("sink resolved"));
}

TEST(RunMoves, AnAlertWithoutAFindingResolvesOnceNothingIsOnItsWay) {
  Place one;
  one.stage(Change::kOpened);
  one.restart();
  EXPECT_THAT(one.reconcile(false, false), IsEmpty());  // its reports may come yet
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_FIRING);
  EXPECT_THAT(one.reconcile(false, true), ElementsAre("sink resolved"));
  EXPECT_TRUE(one.store.keys.contains("uid1/NonFiniteLoss//1/40/resolved sink"));
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(one.alert().trail().rbegin()->what(), "resolved: it is over where its run was read back");
  EXPECT_THAT(one.reconcile(false, true), IsEmpty());
}

TEST(RunMoves, AFindingWithoutAnAlertGetsOne) {
  Place one;
  EXPECT_THAT(one.reconcile(true, false), ElementsAre("sink firing"));
  EXPECT_THAT(one.reconcile(true, true), IsEmpty());
  EXPECT_THAT(one.stage(Change::kResolved), ElementsAre("sink resolved"));
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_RESOLVED);
}

// A full disk takes the alert, and not what is logged; the server is killed.
TEST(RunMoves, AnAcknowledgementThatTheLogLacksHolds) {
  Place one;
  one.stage(Change::kOpened);
  domain::Finding finding = sample_finding(Severity::kWarning);
  finding.acknowledged_by = "ann";
  finding.acknowledge_comment = "on it";
  finding.acknowledged_time = finding.last_time + 10;
  const auto stage = [&](Change change, const domain::Finding& as) {
    engine::CommitBatch batch;
    one.book->stage(sample_run(), {{change, as}}, batch);
    one.store.commit(batch);
  };
  stage(Change::kAcknowledged, finding);
  one.restart();
  stage(Change::kOpened, sample_finding(Severity::kWarning));  // the client sends its cause again
  EXPECT_EQ(one.alert().state(), v1::ALERT_STATE_ACKNOWLEDGED);
  EXPECT_EQ(one.alert().acknowledged_by(), "ann");
  engine::CommitBatch batch;
  const auto lost = one.book->reconcile(sample_run(), {sample_finding(Severity::kWarning)}, true, batch);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].finding_id, finding.id);
  EXPECT_EQ(lost[0].who, "ann");
  EXPECT_EQ(lost[0].comment, "on it");
  EXPECT_EQ(lost[0].now, finding.acknowledged_time);
  const int trail = one.alert().trail_size();
  stage(Change::kAcknowledged, finding);
  EXPECT_EQ(one.alert().trail_size(), trail) << "nobody has done it again";
  EXPECT_THAT(one.book->reconcile(sample_run(), {finding}, true, batch), IsEmpty());
}

// The server gave the run up, and takes it again with what it has itself: nobody else had more of it.
TEST(RunMoves, ARunThatWasGivenUpAndComesBackHasItsAlerts) {
  Place one;
  one.stage(Change::kOpened);
  EXPECT_THAT(one.leave(), IsEmpty());
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_RESOLVED);
  one.restart();
  EXPECT_THAT(one.reconcile(true, false), IsEmpty());  // whoever was told knows it still
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_FIRING);
  EXPECT_EQ(one.alert().pages_size(), 1);
  EXPECT_THAT(one.stage(Change::kResolved), ElementsAre("sink resolved"));
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_RESOLVED);
}

// It was not shared, and the next owner does not find it again: whoever was told hears of its end from here, once.
TEST(RunMoves, WhatDoesNotGoOnElsewhereEndsHere) {
  Place one;
  one.stage(Change::kOpened);
  EXPECT_THAT(one.book->left_open("uid1"), IsEmpty());  // it is this server's
  one.leave();
  one.restart();
  const auto left = one.book->left_open("uid1");
  EXPECT_THAT(left, ElementsAre("uid1/NonFiniteLoss//1/40"));
  EXPECT_THAT(one.store.commit(one.book->end_left(left)), ElementsAre("sink resolved"));
  EXPECT_TRUE(one.store.keys.contains("uid1/NonFiniteLoss//1/40/resolved sink"));
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_RESOLVED);
  EXPECT_NE(one.alert().resolved_ms(), 0);
  EXPECT_THAT(one.book->left_open("uid1"), IsEmpty());
  EXPECT_TRUE(one.book->end_left(left).empty());
}

TEST(RunMoves, WhatNobodyWasToldOfDoesNotEnd) {
  Place one(true);
  one.stage(Change::kOpened);  // its page waits for its group
  one.leave();
  EXPECT_THAT(one.book->left_open("uid1"), IsEmpty());
}

// A batch of the owner before was on its way when it closed them.
TEST(RunMoves, WhatAnOwnerClosedAndSharedIsOpenForTheNext) {
  Place before;
  before.stage(Change::kOpened);
  before.leave();
  Place next;
  next.bring(before.store);
  EXPECT_THAT(next.take(), ElementsAre("sink firing"));  // the same key: it may not have been delivered
  EXPECT_EQ(next.row().state, v1::ALERT_STATE_FIRING);
  EXPECT_THAT(next.reconcile(false, false), IsEmpty());
  EXPECT_THAT(next.reconcile(false, true), ElementsAre("sink resolved"));
  EXPECT_EQ(next.row().state, v1::ALERT_STATE_RESOLVED);
}

// The alerts were shared before the log that ended them.
TEST(RunMoves, AnAlertThatEndedAheadOfItsRunEndsAgain) {
  Place before;
  before.stage(Change::kOpened);
  before.stage(Change::kResolved);
  Place next;
  next.bring(before.store);
  EXPECT_THAT(next.take(), ElementsAre("sink resolved"));
  EXPECT_THAT(next.reconcile(true, false), IsEmpty());
  EXPECT_EQ(next.row().state, v1::ALERT_STATE_FIRING);
  engine::CommitBatch batch = next.staged(Change::kResolved);
  ASSERT_EQ(batch.outbox.size(), 1U);
  EXPECT_EQ(batch.outbox.front().key, "uid1/NonFiniteLoss//1/40/resolved");
  EXPECT_THAT(next.store.commit(batch), IsEmpty());  // told already
  EXPECT_EQ(next.row().state, v1::ALERT_STATE_RESOLVED);
}

TEST(RunMoves, WhatIsBroughtCountsInPlaceOfWhatWasKnown) {
  Place one;
  one.stage(Change::kOpened);
  Place other;
  other.bring(one.store);
  other.take();
  other.clock.now += 60'000;
  other.stage(Change::kResolved);
  one.bring(other.store);
  EXPECT_THAT(one.take(), ElementsAre("sink resolved"));
  EXPECT_THAT(one.pages_for(24 * kHour), IsEmpty()) << "it reminds of what it had itself";
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_RESOLVED);
  EXPECT_THAT(one.reconcile(false, true), IsEmpty());
}

// It came and went while its group's page waited, and its server died.
TEST(RunMoves, APageThatIsOwedStaysOwed) {
  Place before(true);
  EXPECT_THAT(before.stage(Change::kOpened), IsEmpty());
  EXPECT_THAT(before.stage(Change::kResolved), IsEmpty());
  Place next(true);
  next.bring(before.store);
  next.take();
  next.reconcile(false, true);
  EXPECT_THAT(next.pages_for(1000), ElementsAre("sink firing", "sink resolved"));
  EXPECT_THAT(next.pages_for(1000), IsEmpty());
  // Whoever gave it up does not speak of it.
  before.leave();
  before.restart();
  EXPECT_THAT(before.pages_for(1000), IsEmpty());
}

TEST(RunMoves, WhoGivesARunUpDoesNotPageWhatWaits) {
  Place one(true);
  one.stage(Change::kOpened);
  one.stage(Change::kResolved);
  one.leave();
  EXPECT_THAT(one.pages_for(1000), IsEmpty());
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_RESOLVED);
  // Back again, it is owed as before.
  one.take();
  one.reconcile(false, true);
  EXPECT_THAT(one.pages_for(1000), ElementsAre("sink firing", "sink resolved"));
}

// A change of the book's own is on its way to the store when the run leaves.
TEST(RunMoves, WhatClosesAnAlertIsLaterThanAnyChangeOfIt) {
  Place one;
  one.stage(Change::kOpened);
  const engine::CommitBatch on_its_way = one.staged(Change::kUpdated);
  one.clock.now = on_its_way.alerts.front().changed_ms - 5'000;  // the clock was put back
  const engine::CommitBatch closed = one.book->leave_run("uid1");
  one.store.commit(on_its_way);
  one.store.commit(closed);
  EXPECT_EQ(one.row().state, v1::ALERT_STATE_RESOLVED);
}

// It is told by how long before the run's newest report it was, both by its server's clock.
TEST(RunMoves, PagesOfAServerWhoseClockIsHoursAwayAreSentAgain) {
  Place before;
  before.stage(Change::kOpened);
  const std::int64_t paged = before.clock.now;
  for (const std::int64_t later : {60'000, 600'000}) {
    Place next;
    next.clock.now += 5 * kHour;
    next.bring(before.store);
    EXPECT_THAT(next.take(paged + later), later < 300'000 ? Told{"sink firing"} : Told{});
  }
}

TEST(RunMoves, AStoredAlertThatCannotBeReadBeginsAnew) {
  Place one;
  one.stage(Change::kOpened);
  one.store.rows.begin()->second.alert = "\xff\xff not an alert";
  one.restart();
  EXPECT_THAT(one.reconcile(true, false), IsEmpty());  // under the key that it had
  EXPECT_EQ(one.alert().state(), v1::ALERT_STATE_FIRING);
  EXPECT_THAT(one.stage(Change::kResolved), ElementsAre("sink resolved"));
}

}  // namespace
}  // namespace scalewatch::alerting
