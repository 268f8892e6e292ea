#include "server/alerting/alert_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "scalewatch/v1/alerts.pb.h"
#include "tests/unit/alerting/samples.h"

namespace scalewatch::alerting {
namespace {

using Change = domain::FindingEvent::Change;
using domain::Severity;
using testing::ElementsAre;
using testing::IsEmpty;

SinkConfig sink(const std::string& name, Severity min_severity) {
  SinkConfig config;
  config.name = name;
  config.min_severity = min_severity;
  return config;
}

class AlertBookTest : public testing::Test {
 protected:
  // "sink transition" of what the event owes to sinks.
  std::vector<std::string> owed(Change change, Severity severity) {
    engine::CommitBatch batch;
    book_.stage(sample_run(), {{change, sample_finding(severity)}}, batch);
    std::vector<std::string> out;
    for (const auto& row : batch.outbox) {
      EXPECT_EQ(row.key, row.alert_id + "/" + row.transition);
      EXPECT_EQ(row.alert_id, "uid1/NonFiniteLoss//1/40");
      out.push_back(row.sink + " " + row.transition);
    }
    return out;
  }
  v1::Alert staged(Change change, const domain::Finding& finding) { return sample_alert(change, finding); }

  AlertBook book_{{sink("all", Severity::kInfo), sink("chat", Severity::kWarning), sink("pager", Severity::kCritical)},
                  nullptr};
};

TEST_F(AlertBookTest, OpeningFiresToSinksAtOrUnderItsSeverity) {
  EXPECT_THAT(owed(Change::kOpened, Severity::kInfo), ElementsAre("all firing"));
  EXPECT_THAT(owed(Change::kOpened, Severity::kWarning), ElementsAre("all firing", "chat firing"));
  EXPECT_THAT(owed(Change::kOpened, Severity::kCritical), ElementsAre("all firing", "chat firing", "pager firing"));
}

TEST_F(AlertBookTest, EscalationIsTheFirstFiringForASinkThatItReaches) {
  EXPECT_THAT(owed(Change::kEscalated, Severity::kWarning), ElementsAre("all escalated:warning", "chat firing"));
  EXPECT_THAT(owed(Change::kEscalated, Severity::kCritical),
              ElementsAre("all escalated:critical", "chat escalated:critical", "pager firing"));
}

TEST_F(AlertBookTest, ResolveGoesExactlyToThoseThatWereSentAFiring) {
  // Every life that findings can have: opens at one severity, rises one at a time, resolves.
  for (const auto opened : {Severity::kInfo, Severity::kWarning, Severity::kCritical}) {
    for (auto last = opened; last <= Severity::kCritical; last = Severity{static_cast<std::uint8_t>(int(last) + 1)}) {
      std::multiset<std::string> fired;
      const auto take = [&](const std::vector<std::string>& rows) {
        for (const auto& row : rows) {
          if (row.ends_with(" firing")) fired.insert(row.substr(0, row.find(' ')));
        }
      };
      take(owed(Change::kOpened, opened));
      for (int severity = int(opened) + 1; severity <= int(last); ++severity) {
        take(owed(Change::kEscalated, Severity{static_cast<std::uint8_t>(severity)}));
      }
      std::multiset<std::string> resolved;
      for (const auto& row : owed(Change::kResolved, last)) resolved.insert(row.substr(0, row.find(' ')));
      EXPECT_EQ(fired, resolved) << "opened " << int(opened) << ", last " << int(last);
    }
  }
}

TEST_F(AlertBookTest, UpdatesAndAcknowledgementsChangeTheRowOnly) {
  EXPECT_THAT(owed(Change::kUpdated, Severity::kCritical), IsEmpty());
  EXPECT_THAT(owed(Change::kAcknowledged, Severity::kCritical), IsEmpty());
}

TEST_F(AlertBookTest, RowFollowsTheFindingsLife) {
  domain::Finding finding = sample_finding(Severity::kCritical);
  v1::Alert alert = staged(Change::kOpened, finding);
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_FIRING);
  EXPECT_EQ(alert.run(), "digits");
  EXPECT_EQ(alert.labels().at("team"), "vision");
  EXPECT_EQ(alert.fired_ms(), finding.first_time);
  EXPECT_EQ(alert.resolved_ms(), 0);

  finding.acknowledged_by = "on-call";
  finding.acknowledge_comment = "on it";
  finding.acknowledged_time = finding.last_time + 10;
  alert = staged(Change::kAcknowledged, finding);
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_ACKNOWLEDGED);
  EXPECT_EQ(alert.comment(), "on it");
  EXPECT_EQ(staged(Change::kUpdated, finding).state(), v1::ALERT_STATE_ACKNOWLEDGED);

  finding.open = false;
  alert = staged(Change::kResolved, finding);
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(alert.resolved_ms(), finding.last_time);
  EXPECT_EQ(alert.acknowledged_by(), "on-call");
}

TEST_F(AlertBookTest, SameEventsGiveTheSameBytes) {
  engine::RunContext run = sample_run();
  for (int i = 0; i < 32; ++i) run.labels["label" + std::to_string(i)] = "v";
  const std::vector<domain::FindingEvent> events{{Change::kOpened, sample_finding(Severity::kCritical)}};
  engine::CommitBatch first;
  engine::CommitBatch second;
  book_.stage(run, events, first);
  AlertBook({sink("all", Severity::kInfo)}, nullptr).stage(run, events, second);
  EXPECT_EQ(first.alerts.at(0).alert, second.alerts.at(0).alert);
  EXPECT_EQ(first.outbox.at(0).key, second.outbox.at(0).key);
  EXPECT_EQ(first.alerts.at(0).changed_ms, 1'700'000'001'500);
}

}  // namespace
}  // namespace scalewatch::alerting
