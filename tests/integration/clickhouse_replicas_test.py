"""Two ClickHouse servers that hold the same (layout: replicated), with a private ZooKeeper between them: what is written through one is on
both, when one dies, or is away at a start, runs and answers go on, and a run is taken over with all that any of them has of it."""
import os
import re
import subprocess

from clickhouse import need_zookeeper, replicas, zookeeper
from clickhouse_test import is_thinned, metric
from fleets import FleetCase
from harness import BIN, Case, end_with_parent, main, need, wait_for

need("clickhouse-server")
need_zookeeper()
STEPS = 300
TABLES = ("records", "scores", "reports", "scalers", "inputs", "payloads", "runs", "tensors", "alerts", "batches")


class Replicas(Case):
    def all_there(self, server):
        wait_for("all of it in ClickHouse", lambda: metric(server, "scalewatch_shared_history_lag_seconds") == 0
                 and metric(server, "scalewatch_shared_history_reachable") == 1, 120)

    def contents(self, there):
        """Rows of each table, each once, whatever was sent again, and their hash."""
        told = {}
        for table in TABLES:
            key = {"runs": "run, max(version)", "alerts": "id, term, max(changed_ms)", "scores": "stat, grp, tensor, target, max(score)"}.get(table)
            rows = f"SELECT {key} FROM {table} GROUP BY {key.rsplit(', ', 1)[0]}" if key else f"SELECT DISTINCT * FROM {table}"
            told[table] = there.query(f"SELECT count(), sum(cityHash64(*)) FROM ({rows})", "scalewatch")
        return told

    def alike(self, both):
        first = self.contents(both[0])
        for table, rows in first.items():
            self.assertFalse(rows.startswith("0\t"), table)
        wait_for("the replicas to be alike", lambda: self.contents(both[1]) == self.contents(both[0]), 60)

    def questions(self, server, run):
        part = f"runs/{run}"
        told = {path: server.api(f"{part}/{path}?first=1&last=160") for path in ("scaler", "top", "heatmap")}
        told["non-finite"] = server.api(f"{part}/top?first=1&last=160&by=BY_NON_FINITE")
        told["attempt"] = server.api(f"{part}/attempts/40")["tensors"]
        return told

    def setUp(self):
        super().setUp()
        self.keeper = self._stack.enter_context(zookeeper(self.folder / "keeper"))

    def test_conformance(self):
        with replicas(self.folder / "both", self.keeper) as both:
            done = subprocess.run([str(BIN / "clickhouse_conformance"), "--gtest_filter=-*Answers*:*Thinned*:Batches*:*AtTheEdges*:HostsTest*:*AServerOfBefore*"], capture_output=True,
                                  text=True, timeout=600, preexec_fn=end_with_parent,
                                  env={**os.environ, "SCALEWATCH_CLICKHOUSE": ",".join(one.url for one in both),
                                       "SCALEWATCH_CLICKHOUSE_LAYOUT": "replicated"})
            self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
            self.assertNotIn("SKIPPED", done.stdout)

    def test_tables_of_before_keep_their_granules(self):
        """One replica has tables that were made before some had smaller granules; the other one gets them like that."""
        with replicas(self.folder / "both", self.keeper) as both:
            server = self.server(settings=[f"history.clickhouse.hosts={','.join(one.url for one in both)}", "history.clickhouse.layout=replicated",
                                           "history.clickhouse.every=200ms"])
            self.demo(server, "hot", "--run", "first", "--ranks", "1", "--steps", "20")
            self.all_there(server)
            self.assertEqual(server.stop(), 0)
            for table in ("scores", "payloads"):
                made = both[0].query(f"SHOW CREATE TABLE {table} FORMAT TabSeparatedRaw", "scalewatch")
                large = re.sub("index_granularity = [0-9]+", "index_granularity = 8192", made)
                self.assertNotEqual(large, made)
                for one in both:
                    one.query(f"DROP TABLE {table}", "scalewatch")
                both[0].query(large, "scalewatch")
            server.start()
            self.demo(server, "hot", "--run", "second", "--ranks", "1", "--steps", "20")
            self.all_there(server)
            for table in ("scores", "payloads"):
                for one in both:
                    self.assertIn("index_granularity = 8192", one.query(f"SHOW CREATE TABLE {table}", "scalewatch"))
            self.alike(both)
            self.assertEqual(server.stop(), 0)

    def test_one_of_two_dies(self):
        with replicas(self.folder / "both", self.keeper) as both:
            hosts = ",".join(one.url for one in both)
            server = self.server(settings=[f"history.clickhouse.hosts={hosts}", "history.clickhouse.layout=replicated",
                                           "history.clickhouse.every=200ms", "history.clickhouse.timeout=10s",
                                           "history.clickhouse.required=true", "history.keep_attempts=100", "history.retention_every=1s"])
            whole = self.server()
            for each in (server, whole):
                self.demo(each, "hot", "--run", "before", "--ranks", "1", "--steps", str(STEPS), "--seed", "7")
            self.all_there(server)
            self.alike(both)
            wait_for("old statistics to go", lambda: is_thinned(server))
            expected = self.questions(whole, "before")
            self.assertEqual(self.questions(server, "before"), expected)
            both[0].kill()
            # Through the one that is left, and from it.
            self.demo(server, "hot", "--run", "after", "--ranks", "1", "--steps", str(STEPS), "--seed", "7")
            self.all_there(server)
            self.assertEqual(self.questions(server, "before"), expected)
            self.assertEqual(self.questions(server, "after"), expected)
            both[0].start()
            self.alike(both)
            self.assertEqual(server.stop(), 0)

    def test_one_of_two_is_away_at_a_start(self):
        with replicas(self.folder / "both", self.keeper) as both:
            both[1].kill()
            server = self.server(settings=[f"history.clickhouse.hosts={','.join(one.url for one in both)}", "history.clickhouse.layout=replicated",
                                           "history.clickhouse.every=200ms", "history.clickhouse.required=true"])
            self.demo(server, "hot", "--run", "first", "--ranks", "1", "--steps", "20")
            self.all_there(server)
            both[1].start()
            self.assertNotIn("scalewatch", both[1].query("SHOW DATABASES"))
            wait_for("its tables", lambda: "scalewatch" in both[1].query("SHOW DATABASES") and
                     set(TABLES) <= set(both[1].query("SHOW TABLES", "scalewatch").split()), 60)
            self.alike(both)
            both[0].kill()
            self.demo(server, "hot", "--run", "second", "--ranks", "1", "--steps", "20")
            self.all_there(server)
            self.assertEqual(server.stop(), 0)


class Takeover(FleetCase):
    def test_of_a_replica_that_lags(self):
        """The owner writes to one replica, who takes over asks the other one, which gets nothing of it."""
        keeper = self._stack.enter_context(zookeeper(self.folder / "keeper"))
        both = self._stack.enter_context(replicas(self.folder / "both", keeper))
        hosts = [one.url for one in both]
        servers = self.fleet("ab", settings=["history.clickhouse.hosts=" + ",".join(hosts), "history.clickhouse.layout=replicated",
                                             "history.clickhouse.required=true", "history.clickhouse.every=100ms"])
        a, b = servers["a"], servers["b"]
        self.assertEqual(a.stop(), 0)
        a.settings = [f"history.clickhouse.hosts={hosts[1]},{hosts[0]}" if "clickhouse.hosts" in one else one for one in a.settings]
        a.start()
        wait_for("a to be seen", lambda: b.log().count("is there") >= 2)
        run = next(name for name in map("run{}".format, range(99)) if self.order(servers, name)[0] == "a")
        job = subprocess.Popen(self.job(servers, "nan-data", run, "--steps", "250", "--batch", "16", "--step-ms", "100"), stdout=subprocess.DEVNULL,
                               preexec_fn=end_with_parent)
        self._stack.callback(job.kill)
        wait_for("the run", lambda: int(self.summary(a, run)["attempts"]) > 20)
        both[0].query("SYSTEM STOP FETCHES")

        def there(one):
            return int(one.query("SELECT max(last_seq) FROM batches WHERE rank = 0", "scalewatch"))

        wait_for("the first replica to lag", lambda: there(both[1]) > there(both[0]) + 20)
        both[1].freeze()
        a.kill()
        wait_for("a to be gone", lambda: "server a" in b.log() and "is gone" in b.log())
        # What only the other replica has was told to be safe: nobody takes the run without it.
        wait_for("b to look for it", lambda: "cannot be read: ClickHouse" in b.log(), 60)
        both[1].thaw()
        self.assertEqual(self.owner(servers, run, but="a"), "b")
        both[0].query("SYSTEM START FETCHES")
        self.assertEqual(job.wait(120), 0)
        wait_for("its end", lambda: self.summary(b, run)["status"] == "RUN_STATUS_FINISHED")
        told = b.api(f"runs/{run}")
        self.assertEqual(told["run"]["attempts"], "250")
        # The client thins what it keeps while nobody takes it, which is no loss.
        self.assertEqual([(rank["lost_reports"], [one["cause"] for one in rank["losses"] if one["reports"] != "0"]) for rank in told["ranks"]],
                         [("0", [])])
        self.assertIn("NonFiniteLoss", {finding["rule"] for finding in told["findings"]})
        self.assertNotIn("are not in the store any more", b.log())


if __name__ == "__main__":
    main()
