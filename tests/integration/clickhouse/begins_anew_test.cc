// A shared history that is lost, or put back from an older copy, while servers use it.
#include <atomic>
#include <thread>

#include "server/history/clickhouse/keys.h"
#include "server/history/clickhouse/log_cover.h"
#include "server/history/clickhouse/tables.h"
#include "tests/integration/clickhouse/clickhouse_fixture.h"

namespace scalewatch::clickhouse {
namespace {

class BeginsAnew : public ClickHouseTest {
 protected:
  void drop() {
    Connection connection(options_);
    for (std::size_t host = 0; host < connection.hosts(); ++host) {
      connection.execute_at(host, "DROP DATABASE " + options_.database, false);
    }
  }
  // A server that feeds what it has of a run under its claim.
  struct Owner {
    Owner(const Options& options, const engine::Clock& clock) : feeder(options, {"first", true}, *store, clock) {
      feeder.on_lost([this](const std::string&, const history::SharedRun& now) {
        to = now.instance;
        lost = true;
      });
      feeder.start({});
    }
    bool share(const engine::CommitBatch& batch) {
      store->commit(batch);
      return feeder.drain("u1", std::chrono::minutes(1));
    }
    bool loses() {
      for (int i = 0; i < 600 && !lost; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return lost;
    }
    TempDir dir;
    const std::unique_ptr<history::SqliteStore> store = history::SqliteStore::open(dir.path, by_hand());
    std::string to;
    std::atomic<bool> lost = false;
    Feeder feeder;
  };
};

TEST_F(BeginsAnew, ClaimsGoAboveAllThatIsKnownOfARun) {
  Shared shared(options_, clock_);
  EXPECT_EQ(shared.claim("other", "a", 0), 1U);
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  Writer writer(options_, *store, "any");
  engine::CommitBatch made;
  made.runs = {{.run_uid = "000000000000000a", .name = "name's", .created_ms = 1, .overview = {}}};
  store->commit(made);
  writer.write_run("000000000000000a", 4, 1000, 0, false);
  EXPECT_EQ(shared.claim("name's", "a", 0), 5U) << "the run's row is of term 4";
  Block marks(columns_of("batches"));
  const std::uint64_t none = 0;
  add_row(marks, run_key("000000000000000a"), std::uint64_t{7}, kNoRank, none, none, none, none, none, none, std::string("any"),
          std::int64_t{0});
  Connection(options_).insert("batches", marks);
  EXPECT_EQ(shared.claim("name's", "a", 0), 8U) << "a batch is of term 7";
  EXPECT_EQ(shared.claim("name's", "a", 11), 12U) << "who claims it knows of 11";
  EXPECT_EQ(shared.claim("name's", "a", 3), 13U);
  EXPECT_EQ(shared.claim("other", "a", 0), 2U);
}

TEST_F(BeginsAnew, WhoFeedsARunClaimsItAgain) {
  const auto batches = history::one_rank(6, 60);
  Shared shared(options_, clock_);
  Owner owner(options_, clock_);
  for (std::size_t i = 0; i < 2; ++i) owner.store->commit(batches[i]);
  owner.feeder.own("u1", "alpha", shared.claim("alpha", "first", 0));
  ASSERT_TRUE(owner.share(batches[2])) << owner.feeder.stats().error;

  drop();
  Shared other(options_, clock_);  // a server that starts makes the tables
  EXPECT_FALSE(other.find_run("alpha"));
  ASSERT_TRUE(owner.share(batches[3])) << owner.feeder.stats().error;
  const auto there = other.find_run("alpha");
  ASSERT_TRUE(there);
  EXPECT_EQ(there->instance, "first");
  EXPECT_EQ(there->term, 1U);
  EXPECT_EQ(other.claim("alpha", "second", 0), 2U);
  // What was shared since can be taken over, with what stands beside it and was sent before.
  TempDir dir;
  const auto second = history::SqliteStore::open(dir.path, by_hand());
  ASSERT_TRUE(history::import_run(other, "u1", 2, *second));
  EXPECT_EQ(second->incarnations("u1").front().durable_seq, 48U);
  EXPECT_EQ(second->tables("u1", 0, history::incarnation(1)).size(),
            owner.store->tables("u1", 0, history::incarnation(1)).size());
  owner.store->commit(batches[4]);
  ASSERT_TRUE(owner.loses());
  EXPECT_EQ(owner.to, "second");
  EXPECT_EQ(owner.feeder.term_of("u1"), 1U);
}

TEST_F(BeginsAnew, AnotherClaimOfTheSameTermStands) {
  const auto batches = history::one_rank(6, 60);
  Shared shared(options_, clock_);
  Owner owner(options_, clock_);
  owner.feeder.own("u1", "alpha", shared.claim("alpha", "first", 0));
  ASSERT_TRUE(owner.share(batches[0])) << owner.feeder.stats().error;
  drop();
  // Before the owner has sent anything, and from one that knows nothing of the run.
  Shared other(options_, clock_);
  EXPECT_EQ(other.claim("alpha", "second", 0), 1U);
  owner.store->commit(batches[1]);
  ASSERT_TRUE(owner.loses());
  EXPECT_EQ(owner.to, "second");
  EXPECT_EQ(owner.feeder.term_of("u1"), 0U) << "what it has is not of the claim that stands";
  // Had it written its own again at that moment, the other one's would still be the one that counts.
  Connection connection(options_);
  renew_claim(connection, name_key("alpha"), 1, "first", 0);
  EXPECT_EQ(newest_claims(connection, {name_key("alpha")}).at(name_key("alpha")).instance, "second");
}

TEST_F(BeginsAnew, TablesAreMadeAgainByServersThatRun) {
  const auto batches = history::one_rank(6, 60);
  Shared shared(options_, clock_);
  EXPECT_FALSE(shared.find_run("alpha"));
  drop();
  EXPECT_THROW(shared.find_run("alpha"), engine::StoreError);
  EXPECT_FALSE(shared.find_run("alpha"));
  // The feeder, too: with a run to send.
  TempDir dir;
  const auto store = history::SqliteStore::open(dir.path, by_hand());
  Feeder feeder(options_, {"here", false}, *store, clock_);
  feeder.start({});
  store->commit(batches[0]);
  store->commit(batches[1]);
  ASSERT_TRUE(feeder.drain("u1", std::chrono::minutes(1))) << feeder.stats().error;
  drop();
  store->commit(batches[2]);
  ASSERT_TRUE(feeder.drain("u1", std::chrono::minutes(1))) << feeder.stats().error;
  EXPECT_EQ(query("SELECT uniqExact(name) FROM runs"), "1\n");
  EXPECT_NE(query("SELECT count() FROM table_deltas"), "0\n") << "sent before, and again";
  feeder.stop(std::chrono::seconds(1));
}

}  // namespace
}  // namespace scalewatch::clickhouse
