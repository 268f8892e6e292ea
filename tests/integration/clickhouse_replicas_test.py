"""Two ClickHouse servers that hold the same (layout: replicated), with a private ZooKeeper between them: what is written through one is on
both, and when one dies runs and answers go on."""
import os
import re
import subprocess

from clickhouse import need_zookeeper, replicas, zookeeper
from clickhouse_test import is_thinned, metric
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
            done = subprocess.run([str(BIN / "clickhouse_conformance"), "--gtest_filter=-*Answers*:*Thinned*:Batches*:*AtTheEdges*"], capture_output=True,
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


if __name__ == "__main__":
    main()
