#include "server/alerting/alert_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/alert_text.h"
#include "server/alerting/silences.h"
#include "tests/unit/alerting/kept_alerts.h"
#include "tests/unit/alerting/samples.h"

namespace scalewatch::alerting {
namespace {

using Change = domain::FindingEvent::Change;
using domain::Severity;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kMinute = 60'000;

SinkConfig sink(const std::string& name, Severity min_severity) {
  SinkConfig config;
  config.name = name;
  config.type = "webhook";
  config.group = true;
  config.min_severity = min_severity;
  return config;
}

domain::Finding finding(const std::string& rule, Severity severity, const std::string& subject = "") {
  domain::Finding out = sample_finding(severity);
  out.id = rule + "/" + subject + "/1.40";
  out.rule = rule;
  out.subject = subject;
  return out;
}

// Programs are told in the same transaction.
class AlertBookTest : public testing::Test {
 protected:
  // "sink transition" of what the event owes to sinks.
  static std::vector<std::string> owed(AlertBook& book, Change change, Severity severity) {
    engine::CommitBatch batch;
    book.stage(sample_run(), {{change, sample_finding(severity)}}, batch);
    std::vector<std::string> out;
    for (const auto& row : batch.outbox) {
      EXPECT_EQ(row.key, row.alert_id + "/" + row.transition);
      EXPECT_EQ(row.alert_id, "uid1/NonFiniteLoss//1/40");
      out.push_back(row.sink + " " + row.transition);
    }
    return out;
  }
  std::unique_ptr<AlertBook> book() {
    return std::make_unique<AlertBook>(
        each_alone({sink("all", Severity::kInfo), sink("chat", Severity::kWarning), sink("pager", Severity::kCritical)}),
        BookOptions{}, clock_, nullptr);
  }

  TestClock clock_;
};

TEST_F(AlertBookTest, OpeningFiresToSinksAtOrUnderItsSeverity) {
  EXPECT_THAT(owed(*book(), Change::kOpened, Severity::kInfo), ElementsAre("all firing"));
  EXPECT_THAT(owed(*book(), Change::kOpened, Severity::kWarning), ElementsAre("all firing", "chat firing"));
  EXPECT_THAT(owed(*book(), Change::kOpened, Severity::kCritical), ElementsAre("all firing", "chat firing", "pager firing"));
}

TEST_F(AlertBookTest, WhatIsOpenOfARunThatCannotBeReadResolvesAndSaysWhy) {
  const auto one = book();
  owed(*one, Change::kOpened, Severity::kWarning);
  engine::CommitBatch batch;
  one->resolve_all(sample_run(), "nobody knows", batch);
  std::vector<std::string> told;
  for (const auto& row : batch.outbox) told.push_back(row.sink + " " + row.transition);
  EXPECT_THAT(told, ElementsAre("all resolved", "chat resolved"));
  ASSERT_EQ(batch.alerts.size(), 1U);
  v1::Alert alert;
  ASSERT_TRUE(alert.ParseFromString(batch.alerts.front().alert));
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_FALSE(alert.finding().open());
  EXPECT_EQ(alert.trail(alert.trail_size() - 1).what(), "resolved: nobody knows");
  batch = {};
  one->resolve_all(sample_run(), "nobody knows", batch);
  EXPECT_TRUE(batch.empty());
}

// The store keeps the newest change of an alert by this time.
TEST_F(AlertBookTest, AClockThatGoesBackHidesNoChange) {
  const auto one = book();
  std::int64_t newest = 0;
  std::int64_t hours = 0;
  for (const Change change : {Change::kOpened, Change::kUpdated, Change::kEscalated, Change::kResolved}) {
    domain::Finding finding = sample_finding(Severity::kCritical);
    finding.last_time -= 60 * kMinute * hours++;
    engine::CommitBatch batch;
    one->stage(sample_run(), {{change, finding}}, batch);
    ASSERT_EQ(batch.alerts.size(), 1U);
    EXPECT_GT(batch.alerts.front().changed_ms, newest);  // nor does one of the same moment
    newest = batch.alerts.front().changed_ms;
  }
  EXPECT_EQ(newest, sample_finding(Severity::kCritical).last_time + 3);
}

TEST_F(AlertBookTest, OfARunThatWasImportedNobodyIsToldUnlessAnOverrideSaysSo) {
  engine::RunContext run = sample_run();
  run.labels["imported"] = "true";
  for (const bool asked : {false, true}) {
    BookOptions options;
    if (asked)
      options.overrides = {{.runs = run.name, .rules = "*", .page = true, .min_severity = {}, .hold = {}, .repeat = {}}};
    AlertBook one(each_alone({sink("all", Severity::kInfo)}), options, clock_, nullptr);
    engine::CommitBatch batch;
    one.stage(run, {{Change::kOpened, sample_finding(Severity::kCritical)}}, batch);
    one.stage(run, {{Change::kResolved, sample_finding(Severity::kCritical)}}, batch);
    EXPECT_EQ(batch.outbox.size(), asked ? 2U : 0U);
    v1::Alert alert;
    ASSERT_TRUE(alert.ParseFromString(batch.alerts.front().alert));
    EXPECT_EQ(alert.trail(0).what(), "opened as critical; recorded only, its run is read from a log");
  }
}

TEST_F(AlertBookTest, EscalationIsTheFirstFiringForASinkThatItReaches) {
  const auto one = book();
  owed(*one, Change::kOpened, Severity::kInfo);
  EXPECT_THAT(owed(*one, Change::kEscalated, Severity::kWarning), ElementsAre("all escalated:warning", "chat firing"));
  EXPECT_THAT(owed(*one, Change::kEscalated, Severity::kCritical),
              ElementsAre("all escalated:critical", "chat escalated:critical", "pager firing"));
}

TEST_F(AlertBookTest, ResolveGoesExactlyToThoseThatWereSentAFiring) {
  // Every life that findings can have: opens at one severity, rises one at a time, resolves.
  for (const auto opened : {Severity::kInfo, Severity::kWarning, Severity::kCritical}) {
    for (auto last = opened; last <= Severity::kCritical; last = Severity{static_cast<std::uint8_t>(int(last) + 1)}) {
      const auto one = book();
      std::multiset<std::string> fired;
      const auto take = [&](const std::vector<std::string>& rows) {
        for (const auto& row : rows) {
          if (row.ends_with(" firing")) fired.insert(row.substr(0, row.find(' ')));
        }
      };
      take(owed(*one, Change::kOpened, opened));
      for (int severity = int(opened) + 1; severity <= int(last); ++severity) {
        take(owed(*one, Change::kEscalated, Severity{static_cast<std::uint8_t>(severity)}));
      }
      std::multiset<std::string> resolved;
      for (const auto& row : owed(*one, Change::kResolved, last)) resolved.insert(row.substr(0, row.find(' ')));
      EXPECT_EQ(fired, resolved) << "opened " << int(opened) << ", last " << int(last);
    }
  }
}

// As where attempts that were waited for close all together with the run's end.
TEST_F(AlertBookTest, WhatComesAndGoesInOneCommitIsToldAsBoth) {
  const auto one = book();
  const domain::Finding worst = sample_finding(Severity::kCritical);
  engine::CommitBatch batch;
  one->stage(sample_run(),
             {{Change::kOpened, sample_finding(Severity::kWarning)}, {Change::kEscalated, worst}, {Change::kResolved, worst}},
             batch);
  std::vector<std::string> told;
  for (const auto& row : batch.outbox) told.push_back(row.sink + " " + row.transition);
  EXPECT_THAT(told,
              ElementsAre("all firing", "chat firing", "pager firing", "all resolved", "chat resolved", "pager resolved"));
  v1::Alert fired;
  ASSERT_TRUE(fired.ParseFromString(batch.outbox.front().alert));
  EXPECT_EQ(fired.state(), v1::ALERT_STATE_FIRING);
  EXPECT_EQ(fired.finding().severity(), v1::SEVERITY_CRITICAL);
  ASSERT_EQ(batch.alerts.size(), 1U);
  EXPECT_EQ(batch.alerts.front().state, v1::ALERT_STATE_RESOLVED);
}

TEST_F(AlertBookTest, ItsTrailTellsHowFarTheServerWasBehind) {
  const auto one = book();
  double lag = 0.9;
  one->measure_lag([&] { return lag; });
  engine::CommitBatch batch;
  const auto newest = [&](Change change, Severity severity) {
    one->stage(sample_run(), {{change, sample_finding(severity)}}, batch);
    v1::Alert alert;
    EXPECT_TRUE(alert.ParseFromString(batch.alerts.back().alert));
    return alert.trail().rbegin()->what();
  };
  EXPECT_EQ(newest(Change::kOpened, Severity::kInfo), "opened as info");
  lag = 2.34;
  EXPECT_EQ(newest(Change::kUpdated, Severity::kInfo), "opened as info");
  EXPECT_EQ(newest(Change::kEscalated, Severity::kWarning), "now warning; the server was 2.3 s behind");
  v1::Alert told;
  ASSERT_TRUE(told.ParseFromString(batch.outbox.back().alert));
  EXPECT_EQ(behind(told), "the server was 2.3 s behind");  // so pages say it
  EXPECT_EQ(newest(Change::kResolved, Severity::kWarning), "resolved; the server was 2.3 s behind");
}

// A trail that is full takes a new entry for an old one.
TEST_F(AlertBookTest, AFullTrailTellsHowFarTheServerWasBehindToo) {
  const auto one = book();
  one->measure_lag([] { return 2.34; });
  domain::Finding finding = sample_finding(Severity::kCritical);
  engine::CommitBatch batch;
  one->stage(sample_run(), {{Change::kOpened, finding}}, batch);
  v1::Alert alert;
  for (int i = 0; i < 80; ++i) {
    finding.acknowledged_by = "ada";
    finding.acknowledged_time = finding.last_time + i;
    one->stage(sample_run(), {{Change::kAcknowledged, finding}}, batch);
    ASSERT_TRUE(alert.ParseFromString(batch.alerts.back().alert));
    ASSERT_EQ(alert.trail().rbegin()->what(), "acknowledged; the server was 2.3 s behind") << alert.trail_size();
  }
  EXPECT_EQ(alert.trail_size(), 64);
  one->stage(sample_run(), {{Change::kUpdated, finding}}, batch);
  ASSERT_TRUE(alert.ParseFromString(batch.alerts.back().alert));
  EXPECT_EQ(alert.trail().rbegin()->what(), "acknowledged; the server was 2.3 s behind");  // and once
}

TEST_F(AlertBookTest, UpdatesAndAcknowledgementsTellNobody) {
  const auto one = book();
  owed(*one, Change::kOpened, Severity::kCritical);
  EXPECT_THAT(owed(*one, Change::kUpdated, Severity::kCritical), IsEmpty());
  EXPECT_THAT(owed(*one, Change::kAcknowledged, Severity::kCritical), IsEmpty());
  // A client that sends the cause again after a crash opens it again: nobody hears of that.
  EXPECT_THAT(owed(*one, Change::kOpened, Severity::kCritical), IsEmpty());
}

TEST_F(AlertBookTest, WhoAcknowledgesAtTheSameMomentIsInTheTrailToo) {
  const auto one = book();
  owed(*one, Change::kOpened, Severity::kCritical);
  engine::CommitBatch batch;
  for (const char* who : {"ann", "bob", "bob"}) {
    domain::Finding finding = sample_finding(Severity::kCritical);
    finding.acknowledged_by = who;
    finding.acknowledged_time = finding.last_time + 10;
    one->stage(sample_run(), {{Change::kAcknowledged, finding}}, batch);
  }
  v1::Alert alert;
  ASSERT_TRUE(alert.ParseFromString(batch.alerts.back().alert));
  std::vector<std::string> whos;
  for (const auto& entry : alert.trail()) whos.push_back(entry.who());
  EXPECT_THAT(whos, ElementsAre("", "ann", "bob"));
}

TEST_F(AlertBookTest, RowFollowsTheFindingsLife) {
  domain::Finding finding = sample_finding(Severity::kCritical);
  v1::Alert alert = sample_alert(Change::kOpened, finding);
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_FIRING);
  EXPECT_EQ(alert.run(), "digits");
  EXPECT_EQ(alert.labels().at("team"), "vision");
  EXPECT_EQ(alert.fired_ms(), finding.first_time);
  EXPECT_EQ(alert.resolved_ms(), 0);

  finding.acknowledged_by = "on-call";
  finding.acknowledge_comment = "on it";
  finding.acknowledged_time = finding.last_time + 10;
  alert = sample_alert(Change::kAcknowledged, finding);
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_ACKNOWLEDGED);
  EXPECT_EQ(alert.comment(), "on it");
  EXPECT_EQ(sample_alert(Change::kUpdated, finding).state(), v1::ALERT_STATE_ACKNOWLEDGED);

  finding.open = false;
  alert = sample_alert(Change::kResolved, finding);
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(alert.resolved_ms(), finding.last_time);
  EXPECT_EQ(alert.acknowledged_by(), "on-call");
}

// A book as the server runs it, for people; what it would submit is taken by hand.
class PagingTest : public testing::Test {
 protected:
  void begin(const std::vector<SinkConfig>& sinks = {sink("oncall", Severity::kWarning)}) {
    book_ = std::make_unique<AlertBook>(sinks, options_, clock_, nullptr);
  }
  void stage(const std::vector<domain::FindingEvent>& events, const engine::RunContext& run = sample_run()) {
    engine::CommitBatch batch;
    book_->stage(run, events, batch);
    take(batch);
  }
  void open(const std::string& rule, Severity severity = Severity::kWarning, const std::string& subject = "") {
    stage({{Change::kOpened, finding(rule, severity, subject)}});
  }
  void resolve(const std::string& rule, const std::string& subject = "") {
    stage({{Change::kResolved, finding(rule, Severity::kWarning, subject)}});
  }
  // Moves time on, step by step, and returns the pages since the last call, as "rule transition".
  std::vector<std::string> pages_for(std::int64_t ms, std::int64_t step = 100) {
    for (const std::int64_t end = clock_.now + ms; clock_.now < end;) {
      clock_.now = std::min(end, clock_.now + step);
      engine::CommitBatch batch;
      std::vector<v1::Alert> changed;
      book_->turn(batch, changed);
      take(batch);
    }
    return std::exchange(pages_, {});
  }
  void take(const engine::CommitBatch& batch) {
    for (const auto& row : batch.alerts) EXPECT_GE(row.changed_ms, stored_.rows[row.id].changed_ms) << row.id;
    EXPECT_EQ(stored_.commit(batch).size(), batch.outbox.size()) << "a key is used twice";
    for (const auto& row : batch.outbox) {
      EXPECT_TRUE(last_.ParseFromString(row.alert));
      pages_.push_back(last_.finding().rule() + " " + row.transition);
    }
  }
  v1::Alert alert(const std::string& rule, const std::string& subject = "") {
    v1::Alert out;
    EXPECT_TRUE(out.ParseFromString(stored_.rows["uid1/" + finding(rule, Severity::kInfo, subject).id].alert));
    return out;
  }
  std::string silence(const std::string& matcher, std::int64_t ms) {
    v1::CreateSilenceRequest request;
    request.add_matchers(matcher);
    request.set_duration_ms(ms);
    request.set_who("ada");
    request.set_reason("known");
    engine::CommitBatch batch;
    std::uint32_t alerts = 0;
    const std::string id = book_->stage_silence(request, batch, alerts).id();
    take(batch);
    return id;
  }
  // As the next server would find it.
  void restart() {
    begin();
    book_->load(stored_);
  }

  TestClock clock_;
  BookOptions options_;
  std::unique_ptr<AlertBook> book_;
  std::vector<std::string> pages_;
  KeptAlerts stored_;
  v1::Alert last_;  // of the newest page
};

TEST_F(PagingTest, AWaveIsOnePageThatBeginsWithTheWorst) {
  begin();
  for (int i = 0; i < 399; ++i) open("NonFiniteGradient", Severity::kWarning, "layers." + std::to_string(i));
  auto blamed = finding("NonFiniteActivation", Severity::kCritical);
  blamed.blame.emplace().tensor = "layers.3";
  stage({{Change::kOpened, blamed}});
  EXPECT_THAT(pages_for(1000), ElementsAre("NonFiniteActivation firing"));
  EXPECT_EQ(last_.finding().blame().tensor(), "layers.3");
  EXPECT_EQ(last_.grouped_total(), 399U);
  EXPECT_EQ(last_.grouped_size(), 20);
  EXPECT_THAT(pages_for(kMinute), IsEmpty());
}

TEST_F(PagingTest, WhatGoesWhileItsGroupWaitsStaysOnePage) {
  begin();
  const auto gone = [&](const std::string& rule) {
    auto out = finding(rule, Severity::kCritical);
    out.open = false;
    stage({{Change::kResolved, out}});
  };
  open("NonFiniteLoss", Severity::kCritical);
  gone("NonFiniteLoss");
  open("ScaleDrift");
  open("RankLost", Severity::kCritical);
  gone("RankLost");
  EXPECT_THAT(pages_, IsEmpty());
  EXPECT_EQ(alert("RankLost").state(), v1::ALERT_STATE_RESOLVED);
  restart();  // the page is owed all the same
  std::vector<v1::Alert> rows;
  const auto keep = [&](const engine::CommitBatch& batch) {
    for (const auto& row : batch.outbox) EXPECT_TRUE(rows.emplace_back().ParseFromString(row.alert));
    take(batch);
  };
  for (int i = 0; i < 10; ++i) {
    clock_.now += 100;
    engine::CommitBatch batch;
    std::vector<v1::Alert> changed;
    book_->turn(batch, changed);
    keep(batch);
  }
  EXPECT_THAT(pages_, ElementsAre("NonFiniteLoss firing", "NonFiniteLoss resolved"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].state(), v1::ALERT_STATE_FIRING);
  EXPECT_EQ(rows[0].resolved_ms(), 0);
  EXPECT_EQ(rows[0].grouped_total(), 2U);
  EXPECT_EQ(rows[1].state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(rows[1].grouped_total(), 1U);  // ScaleDrift is open
  for (const char* rule : {"NonFiniteLoss", "RankLost"}) {
    EXPECT_EQ(stored_.rows["uid1/" + finding(rule, Severity::kInfo).id].state, v1::ALERT_STATE_RESOLVED) << rule;
  }
  pages_.clear();
  restart();
  EXPECT_THAT(pages_for(kMinute, 1000), IsEmpty());
}

TEST_F(PagingTest, WhatComesAndGoesInOneCommitIsAPartOfItsGroupsPage) {
  begin();
  stage({{Change::kOpened, finding("NonFiniteLoss", Severity::kCritical)},
         {Change::kOpened, finding("ScaleDrift", Severity::kWarning)},
         {Change::kResolved, finding("NonFiniteLoss", Severity::kCritical)}});
  restart();
  EXPECT_THAT(pages_for(1000), ElementsAre("NonFiniteLoss firing", "NonFiniteLoss resolved"));
  EXPECT_EQ(alert("NonFiniteLoss").state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(alert("ScaleDrift").pages_size(), 1);
}

TEST_F(PagingTest, ASilencedAlertLivesOnPagesNobodyAndPagesWhenItEnds) {
  begin();
  silence("rule=~\"Scale.*\"", 10 * kMinute);
  open("ScaleCollapse");
  EXPECT_THAT(pages_for(5 * kMinute, 1000), IsEmpty());
  EXPECT_EQ(alert("ScaleCollapse").state(), v1::ALERT_STATE_SILENCED);
  EXPECT_EQ(alert("ScaleCollapse").silence().reason(), "known");
  stage({{Change::kEscalated, finding("ScaleCollapse", Severity::kCritical)}});
  EXPECT_THAT(pages_for(kMinute, 1000), IsEmpty());
  restart();
  EXPECT_THAT(pages_for(kMinute, 1000), IsEmpty());
  EXPECT_THAT(pages_for(5 * kMinute, 1000), ElementsAre("ScaleCollapse firing"));
  const v1::Alert told = alert("ScaleCollapse");
  EXPECT_EQ(told.state(), v1::ALERT_STATE_FIRING);
  EXPECT_FALSE(told.has_silence());
  std::vector<std::string> trail;
  for (const auto& entry : told.trail()) trail.push_back(entry.who() + "|" + entry.what());
  EXPECT_THAT(trail,
              ElementsAre("|opened as warning", HasSubstr("ada|silenced until"), "|now critical", "|no longer silenced"));
}

TEST_F(PagingTest, ASilenceMadeWhileTheClockWasAheadLastsNoLongerThanItWasMeantTo) {
  constexpr std::int64_t kAhead = 170LL * 365 * 24 * 60 * kMinute;
  for (const std::string rule : {"LossSpike", "ScaleDrift"}) {
    begin();
    clock_.shift = kAhead;
    pages_for(kMinute, 1000);
    silence("rule=" + rule, 60 * kMinute);
    pages_for(kMinute, 1000);
    clock_.shift = 0;
    if (rule == "ScaleDrift") restart();  // once with a server that lives on, once with another one
    open(rule);
    EXPECT_THAT(pages_for(kMinute, 1000), IsEmpty());
    const auto listed = book_->silences(false);
    ASSERT_EQ(listed.size(), 1U);
    EXPECT_LE(listed[0].starts_ms(), clock_.wall_ms());
    EXPECT_EQ(listed[0].ends_ms() - listed[0].starts_ms(), 60 * kMinute);
    EXPECT_THAT(pages_for(60 * kMinute, 1000), ElementsAre(rule + " firing"));
  }
}

TEST_F(PagingTest, AnAlertHeldBackWhileTheClockWasAheadIsNotHeldUntilThen) {
  options_.overrides = {
      {.runs = "*", .rules = "*", .page = true, .min_severity = {}, .hold = std::chrono::minutes(10), .repeat = {}}};
  begin();
  clock_.shift = 24LL * 60 * kMinute;
  open("LossSpike");
  pages_for(kMinute, 1000);
  clock_.shift = 0;
  EXPECT_THAT(pages_for(5 * kMinute, 1000), IsEmpty());
  EXPECT_THAT(pages_for(10 * kMinute, 1000), ElementsAre("LossSpike firing"));
}

TEST_F(PagingTest, ASilenceThatIsEndedPagesWhatStillFiresAgain) {
  begin();
  open("ScaleCollapse");
  open("LossSpike");
  EXPECT_THAT(pages_for(kMinute, 1000), ElementsAre(HasSubstr("firing")));
  const std::string id = silence("team=vision", 60 * kMinute);
  EXPECT_THAT(pages_for(kMinute, 1000), IsEmpty());
  resolve("LossSpike");  // whoever was told of it hears of its end, silence or not
  EXPECT_THAT(pages_for(kMinute, 1000), ElementsAre("LossSpike resolved"));
  engine::CommitBatch batch;
  book_->stage_unsilence(id, "bob", batch);
  EXPECT_THAT(pages_for(kMinute, 1000), ElementsAre("ScaleCollapse repeated:2"));
  EXPECT_THROW(book_->stage_unsilence(id, "bob", batch), std::logic_error);
  EXPECT_THROW(book_->stage_unsilence("x", "bob", batch), std::out_of_range);
}

TEST_F(PagingTest, BadWeightsSilenceWhatFollowsFromThem) {
  begin();
  stage({{Change::kOpened, finding("NonFiniteLoss", Severity::kCritical)},
         {Change::kOpened, finding("NonFiniteWeights", Severity::kCritical)},
         {Change::kOpened, finding("RankLost", Severity::kCritical)}});
  pages_for(1000);
  EXPECT_EQ(last_.grouped_total(), 1U);  // the weights and the lost rank
  EXPECT_EQ(alert("NonFiniteLoss").state(), v1::ALERT_STATE_SILENCED);
  EXPECT_EQ(alert("NonFiniteLoss").inhibited_by(), "uid1/NonFiniteWeights//1.40");
  open("ScaleCollapse");
  EXPECT_THAT(pages_for(kMinute, 1000), IsEmpty());
  resolve("NonFiniteWeights");
  resolve("NonFiniteLoss");
  EXPECT_THAT(pages_for(kMinute, 1000), ElementsAre("NonFiniteWeights resolved", "ScaleCollapse firing"));
}

TEST_F(PagingTest, RepeatsUntilSomebodyIsOnItAndRisesAnyhow) {
  begin();
  open("ScaleDrift");
  EXPECT_THAT(pages_for(3 * 60 * kMinute, kMinute), ElementsAre("ScaleDrift firing"));
  EXPECT_THAT(pages_for(6 * 60 * kMinute, kMinute), ElementsAre("ScaleDrift repeated:2", "ScaleDrift repeated:3"));
  auto taken = finding("ScaleDrift", Severity::kWarning);
  taken.acknowledged_by = "ada";
  taken.acknowledged_time = clock_.now;
  stage({{Change::kAcknowledged, taken}});
  EXPECT_THAT(pages_for(24 * 60 * kMinute, kMinute), IsEmpty());
  taken.severity = Severity::kCritical;
  stage({{Change::kEscalated, taken}});
  EXPECT_THAT(pages_for(kMinute, 1000), ElementsAre("ScaleDrift escalated:critical"));
  EXPECT_EQ(alert("ScaleDrift").trail(1).who(), "ada");
}

TEST_F(PagingTest, BeyondTenPagesAMinuteThereIsOneDigest) {
  begin();
  const auto run = [](int i) {
    engine::RunContext out = sample_run();
    out.run_uid = "uid" + std::to_string(100 + i);
    return out;
  };
  for (int i = 0; i < 50; ++i) stage({{Change::kOpened, finding("RankLost", Severity::kCritical)}}, run(i));
  EXPECT_EQ(pages_for(30'000).size(), 10U);
  // One that comes and goes meanwhile is not forgotten.
  stage({{Change::kOpened, finding("LossSpike", Severity::kWarning)}}, run(50));
  pages_for(1000);
  stage({{Change::kResolved, finding("LossSpike", Severity::kWarning)}}, run(50));
  EXPECT_THAT(pages_for(kMinute), ElementsAre("RankLost digest:1"));
  EXPECT_EQ(last_.grouped_total(), 40U);
  EXPECT_THAT(pages_for(kMinute), IsEmpty());
  for (int i = 0; i < 50; ++i) stage({{Change::kResolved, finding("RankLost", Severity::kCritical)}}, run(i));
  EXPECT_EQ(pages_for(kMinute).size(), 50U);  // whoever was told hears of every end
}

// What was told, or is held back, while the clock was ahead is not waited for until that time comes.
TEST_F(PagingTest, RepeatsGoOnAfterTheClockWasAhead) {
  begin();
  clock_.shift = 30 * 24 * 60 * kMinute;
  open("ScaleDrift");
  EXPECT_THAT(pages_for(10 * kMinute, kMinute), ElementsAre("ScaleDrift firing"));
  clock_.shift = 0;
  EXPECT_THAT(pages_for(4 * 60 * kMinute, kMinute), ElementsAre("ScaleDrift repeated:2"));
  EXPECT_THAT(pages_for(4 * 60 * kMinute, kMinute), ElementsAre("ScaleDrift repeated:3"));
}

TEST_F(PagingTest, WhatIsHeldBackWhileTheClockIsAheadIsToldWhenThatIsOver) {
  options_.overrides = {
      {.runs = "*", .rules = "*", .page = {}, .min_severity = {}, .hold = std::chrono::minutes(20), .repeat = {}}};
  begin();
  clock_.shift = 30 * 24 * 60 * kMinute;
  open("ScaleDrift");
  EXPECT_THAT(pages_for(10 * kMinute, kMinute), IsEmpty());
  clock_.shift = 0;
  EXPECT_THAT(pages_for(8 * kMinute, kMinute), IsEmpty());
  EXPECT_THAT(pages_for(5 * kMinute, kMinute), ElementsAre("ScaleDrift firing"));
}

TEST_F(PagingTest, ASilenceHoldsAgainAfterTheClockWasAhead) {
  for (const std::int64_t days : {2, 100}) {  // it ended by then, or was forgotten
    restart();
    silence("rule=ScaleDrift", 12 * 60 * kMinute);
    open("ScaleDrift", Severity::kWarning, std::to_string(days));
    EXPECT_THAT(pages_for(10 * kMinute, kMinute), IsEmpty());
    clock_.shift = days * 24 * 60 * kMinute;
    pages_for(10 * kMinute, kMinute);
    EXPECT_EQ(alert("ScaleDrift", std::to_string(days)).state(), v1::ALERT_STATE_FIRING);
    clock_.shift = 0;
    pages_for(kMinute, kMinute);
    EXPECT_EQ(alert("ScaleDrift", std::to_string(days)).state(), v1::ALERT_STATE_SILENCED);
    pages_for(12 * 60 * kMinute, kMinute);
    stored_ = {};
  }
}

// Nothing else would ever end them: no finding does, and who was told waits for it.
TEST_F(PagingTest, AlertsOfARunThatIsNotStoredResolve) {
  begin();
  open("ScaleDrift");
  EXPECT_THAT(pages_for(2 * kMinute, 1000), ElementsAre("ScaleDrift firing"));
  begin();
  book_->load(stored_, [](const std::string& uid) { return uid == "uid1"; });
  EXPECT_THAT(pages_for(kMinute, 1000), IsEmpty());
  EXPECT_EQ(alert("ScaleDrift").state(), v1::ALERT_STATE_FIRING);
  begin();
  book_->load(stored_, [](const std::string&) { return false; });
  EXPECT_THAT(pages_for(kMinute, 1000), ElementsAre("ScaleDrift resolved"));
  EXPECT_EQ(alert("ScaleDrift").trail().rbegin()->what(), "resolved: its run is not stored any more");
  EXPECT_THAT(pages_for(24 * 60 * kMinute, kMinute), IsEmpty());
}

TEST_F(PagingTest, WhatIsOpenOfARunThatIsToBeRemovedResolvesBefore) {
  begin();
  EXPECT_FALSE(book_->end_run("uid1", "old"));
  open("ScaleDrift");
  EXPECT_THAT(pages_for(2 * kMinute, 1000), ElementsAre("ScaleDrift firing"));
  EXPECT_TRUE(book_->end_run("uid1", "old"));
  EXPECT_THAT(pages_for(kMinute, 1000), ElementsAre("ScaleDrift resolved"));
  EXPECT_FALSE(book_->end_run("uid1", "old"));
  EXPECT_EQ(alert("ScaleDrift").trail().rbegin()->what(), "resolved: old");
}

TEST_F(PagingTest, OneThatFlapsIsHeldBack) {
  begin();
  for (int i = 0; i < 5; ++i) {
    open("ScaleStuck", Severity::kWarning, "s" + std::to_string(i));
    auto again = finding("ScaleStuck", Severity::kWarning);
    again.id = "again" + std::to_string(i);
    stage({{Change::kOpened, again}});
    EXPECT_THAT(pages_for(1000), ElementsAre("ScaleStuck firing"));
    stage({{Change::kResolved, again}});
    pages_for(1000);
  }
  auto held = finding("ScaleStuck", Severity::kWarning);
  held.id = "held";
  stage({{Change::kOpened, held}});
  EXPECT_THAT(pages_for(4 * kMinute, 1000), IsEmpty());
  v1::Alert alert;
  alert.ParseFromString(stored_.rows["uid1/held"].alert);
  EXPECT_EQ(alert.state(), v1::ALERT_STATE_PENDING);
  EXPECT_THAT(pages_for(2 * kMinute, 1000), ElementsAre("ScaleStuck firing"));
}

TEST_F(PagingTest, APagerThatTakesAcknowledgementsHearsOfThemOnce) {
  SinkConfig pager = sink("pager", Severity::kWarning);
  pager.type = "pagerduty";
  pager.group = std::nullopt;
  begin({pager, sink("oncall", Severity::kWarning)});
  open("ScaleDrift", Severity::kWarning);
  EXPECT_THAT(pages_for(1000), testing::UnorderedElementsAre("ScaleDrift firing", "ScaleDrift firing"));
  auto taken = finding("ScaleDrift", Severity::kWarning);
  taken.acknowledged_by = "ada";
  taken.acknowledged_time = taken.last_time + 1000;
  stage({{Change::kUpdated, taken}});
  EXPECT_THAT(pages_for(1000), ElementsAre("ScaleDrift acknowledged"));
  EXPECT_TRUE(stored_.keys.contains("uid1/ScaleDrift//1.40/acknowledged pager"));
  stage({{Change::kUpdated, taken}});
  EXPECT_THAT(pages_for(1000), IsEmpty());
  restart();
  stage({{Change::kUpdated, taken}});
  EXPECT_THAT(pages_for(1000), IsEmpty());
  // One that is taken on before its page went: the page, then that.
  begin({pager});
  open("RankLost", Severity::kWarning);
  auto early = finding("RankLost", Severity::kWarning);
  early.acknowledged_by = "bob";
  early.acknowledged_time = early.last_time + 1;
  stage({{Change::kUpdated, early}});
  EXPECT_THAT(pages_for(1000), ElementsAre("RankLost firing", "RankLost acknowledged"));
}

TEST_F(PagingTest, DampingRemembersOverARestart) {
  begin();
  for (int i = 0; i < 5; ++i) {
    auto again = finding("ScaleStuck", Severity::kWarning);
    again.id = "again" + std::to_string(i);
    again.first_time = clock_.now;
    stage({{Change::kOpened, again}});
    stage({{Change::kResolved, again}});
    pages_for(1000);
  }
  restart();
  auto held = finding("ScaleStuck", Severity::kWarning);
  held.id = "held";
  stage({{Change::kOpened, held}});
  EXPECT_THAT(pages_for(4 * kMinute, 1000), IsEmpty());
  // Beyond the window nothing is remembered.
  clock_.now += 61 * kMinute;
  restart();
  auto later = finding("ScaleStuck", Severity::kWarning);
  later.id = "later";
  stage({{Change::kOpened, later}});
  EXPECT_THAT(pages_for(1000), testing::Contains("ScaleStuck firing"));
}

TEST_F(PagingTest, ADamagedRowIsLeftOutCountedAndHarmsNoOther) {
  begin();
  open("ScaleDrift");
  open("RankLost");
  pages_for(1000);
  stored_.rows["uid1/" + finding("ScaleDrift", Severity::kInfo).id].alert = "\xff\xff not an alert";
  restart();
  EXPECT_EQ(book_->unreadable(), 1U);
  resolve("RankLost");
  EXPECT_THAT(pages_for(1000), ElementsAre("RankLost resolved"));
}

TEST_F(PagingTest, NewSettingsTakeWhatIsOpenAndKeepWhatWasTold) {
  begin();
  open("RankLost");
  EXPECT_THAT(pages_for(1000), ElementsAre("RankLost firing"));
  open("ScaleDrift");  // its page waits for the group
  SinkConfig second = sink("second", Severity::kInfo);
  BookOptions options = options_;
  options.overrides = {{.runs = "*", .rules = "ScaleDrift", .page = false, .min_severity = {}, .hold = {}, .repeat = {}}};
  book_->reconfigure({second, sink("oncall", Severity::kInfo)}, options);
  // Only what is new is told of what is open; nobody hears of what pages no longer.
  EXPECT_THAT(pages_for(1000), ElementsAre("RankLost firing"));
  options.overrides.clear();
  book_->reconfigure({second}, options);
  EXPECT_THAT(pages_for(1000), ElementsAre("ScaleDrift firing"));
  resolve("RankLost");
  EXPECT_THAT(pages_for(1000), ElementsAre("RankLost resolved"));  // once: the first sink is gone
}

TEST_F(PagingTest, OverridesBindToRunsAndRules) {
  options_.overrides = {
      {.runs = "dig*", .rules = "Scale*", .page = false, .min_severity = {}, .hold = {}, .repeat = {}},
      {.runs = "*", .rules = "ScaleDrift", .page = true, .min_severity = {}, .hold = std::chrono::minutes(2), .repeat = {}},
      {.runs = "other", .rules = "*", .page = false, .min_severity = {}, .hold = {}, .repeat = {}}};
  begin();
  open("ScaleCollapse", Severity::kCritical);
  open("ScaleDrift");
  EXPECT_THAT(pages_for(kMinute, 1000), IsEmpty());
  EXPECT_THAT(pages_for(2 * kMinute, 1000), ElementsAre("ScaleDrift firing"));
  EXPECT_EQ(last_.grouped_total(), 0U);
}

TEST_F(PagingTest, WhatWasOwedBeforeARestartIsToldAfterItOnce) {
  begin();
  open("RankLost");
  restart();  // within the group's wait
  EXPECT_THAT(pages_for(1000), ElementsAre("RankLost firing"));
  restart();
  open("RankLost");  // the client sends the cause again
  EXPECT_THAT(pages_for(kMinute, 1000), IsEmpty());
  resolve("RankLost");
  EXPECT_THAT(pages_for(1000), ElementsAre("RankLost resolved"));
}

TEST_F(PagingTest, ASinkTakesOnlyWhatItsMatchersTake) {
  SinkConfig config = sink("oncall", Severity::kInfo);
  config.match = {"team=~\"vis.*\"", "rule!=LossSpike"};
  begin({config});
  open("LossSpike", Severity::kCritical);
  open("RankLost");
  EXPECT_THAT(pages_for(1000), ElementsAre("RankLost firing"));
}

TEST_F(PagingTest, SilencesThatSayTooLittleAreRefused) {
  begin();
  for (const std::string bad : {"", "rule", "=x", "rule=~\"(\"", "rule=\"a", "rule!=x", "team=~\".*\"", "rule=\x01"}) {
    EXPECT_THROW(silence(bad, kMinute), std::invalid_argument) << bad;
  }
  EXPECT_THROW(silence("rule=x", 10), std::invalid_argument);
  EXPECT_THAT(silence("rule = \"a\\\"b\"", kMinute), testing::Not(IsEmpty()));
  EXPECT_EQ(book_->silences(false).at(0).matchers(0), "rule=\"a\\\"b\"");
}

TEST(Silences, ARegularExpressionThatNeedsMuchMemoryIsRefused) {
  EXPECT_TRUE(Matcher::parse("rule=~\"NonFinite.*|Rank(Lost|Slow)\"").is_regex());
  try {
    Matcher::parse("rule=~\"[^a]{900}\"");
    FAIL() << "it was taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("more than 64 KiB of memory"));
  }
}

TEST(Silences, TheirRegularExpressionsAreBoundedInAllAndGoWhenTheyEnd) {
  constexpr std::int64_t kEnd = 1000;
  Silences silences;
  v1::Silence silence;
  silence.set_ends_ms(kEnd);
  for (int i = 0; i < 16; ++i) silence.add_matchers("rule=~\".*\"");
  const auto put = [&](const std::string& id, std::int64_t now) {
    silence.set_id(id);
    silences.put(silence, now);
  };
  for (std::size_t i = 0; i < Silences::kMaxRegexes / 16; ++i) put(std::to_string(i), 0);
  EXPECT_THROW(put("more", 0), std::length_error);
  EXPECT_EQ(silences.find("more"), nullptr);
  put("0", 0);  // in place of itself
  EXPECT_TRUE(silences.takes("0", {}));

  silences.prune(kEnd);
  EXPECT_FALSE(silences.takes("0", {}));
  EXPECT_EQ(silences.that_silences({}, 0), nullptr) << "without matchers it takes all";
  put("ended", kEnd);
  EXPECT_FALSE(silences.takes("ended", {}));
  silence.set_ends_ms(2 * kEnd);
  put("more", kEnd);
  EXPECT_TRUE(silences.takes("more", {}));
}

}  // namespace
}  // namespace scalewatch::alerting
