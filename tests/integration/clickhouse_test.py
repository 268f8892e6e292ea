"""The shared history in a real ClickHouse (Debian's 18.16): the conformance suite on one server and on two shards, and a job whose
history lives there while shards and the server are killed, frozen, or have a full disk."""
import contextlib
import os
import sqlite3
import subprocess
import time

from clickhouse import ClickHouse, clickhouse, shards
from harness import BIN, ROOT, Case, end_with_parent, get, main, need, wait_for

need("clickhouse-server")
STEPS = 300


def metric(server, name):
    for line in get(server.http + "/metrics").splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"no {name}")


def is_thinned(server):
    """Whether the server's own store let statistics go, so that questions about them are asked of ClickHouse."""
    with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as history:
        return history.execute("SELECT max(thinned) FROM stretches").fetchone()[0] == 1


class Conformance(Case):
    def suite(self, hosts, *options, **environment):
        done = subprocess.run([str(BIN / "clickhouse_conformance"), *options], capture_output=True, text=True, timeout=600,
                              env={**os.environ, "SCALEWATCH_CLICKHOUSE": hosts, **environment}, preexec_fn=end_with_parent)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
        self.assertNotIn("SKIPPED", done.stdout)

    def test_one_server(self):
        with clickhouse(self.folder / "one") as server:
            self.suite(server.url)
            self.suite(server.url, "--gtest_filter=SentTwice.*OneRank", SCALEWATCH_CLICKHOUSE_COMPRESSION="gzip")

    def test_two_shards(self):
        with shards(self.folder / "two") as both:
            self.suite(",".join(one.url for one in both), "--gtest_filter=-*Answers*:*AtTheEdges*:HostsTest*:*OfBeforeStored*", SCALEWATCH_CLICKHOUSE_CLUSTER="shards")

    def test_current_engine(self):
        python = ROOT / "build/tools/chdb/bin/python"
        if not python.exists():
            self.skipTest("chdb is missing: server/history/clickhouse/CLICKHOUSE.md says how to install it")
        folder = self.folder / "chdb"
        folder.mkdir()
        engine = subprocess.Popen([str(python), "-B", str(ROOT / "tests/integration/chdb_server.py"), str(folder)],
                                  stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
        try:
            self.suite(f"http://127.0.0.1:{int(engine.stdout.readline())}", "--gtest_filter=-*Answers*:*Thinned*:HostsTest*")
        finally:
            engine.kill()
            engine.wait()
            engine.stdout.close()


class Faults(Case):
    def settings(self, hosts, *more):
        return [f"history.clickhouse.hosts={hosts}", "history.clickhouse.every=200ms", "engine.snapshot_every=500ms",
                "history.clickhouse.timeout=10s", *more]

    def check_whole(self, query, ranks, records):
        """Every report once, every record once, whatever was sent twice."""
        run = query("SELECT DISTINCT run FROM reports").split()
        self.assertEqual(len(run), 1)
        reports = query("SELECT rank, uniqExact(attempt), max(attempt) FROM reports WHERE retrospective = 0 GROUP BY rank ORDER BY rank")
        self.assertEqual(reports, "".join(f"{rank}\t{STEPS}\t{STEPS}\n" for rank in range(ranks)))
        unique = int(query("SELECT count() FROM (SELECT DISTINCT rank, stream, seq, id FROM records)"))
        self.assertEqual(unique, records)

    def all_there(self, server):
        return metric(server, "scalewatch_shared_history_lag_seconds") == 0 and \
            metric(server, "scalewatch_shared_history_reachable") == 1

    def test_shards_and_server_killed_under_load(self):
        with shards(self.folder / "two") as both:
            hosts = ",".join(one.url for one in both)
            server = self.server(settings=self.settings(hosts, "history.clickhouse.layout=sharded", "history.clickhouse.cluster=shards",
                                                        "history.clickhouse.required=true"))
            trainer = self.spawn(self.demo_command(server, "hot", "--run", "shared", "--ranks", "2", "--steps", str(STEPS)))

            def reached(share):
                wait_for(f"{share:.0%} of the run", lambda: int(server.api("runs/shared")["run"]["attempts"]) >= share * STEPS, 120)

            reached(0.15)
            both[1].kill()
            reached(0.3)
            both[0].kill()
            time.sleep(0.5)
            server.kill()
            server.start()
            for one in both:
                one.start()
            reached(0.5)
            both[0].freeze()  # one is slow
            time.sleep(1)
            both[0].thaw()
            self.assertEqual(trainer.wait(240), 0)
            wait_for("all of it in ClickHouse", lambda: self.all_there(server), 60)
            run = server.api("runs/shared")
            self.assertEqual([r["lost_reports"] for r in run["ranks"]], ["0", "0"])
            self.assertEqual(int(run["run"]["attempts"]), STEPS)
            records = int(both[0].query("SELECT count() FROM (SELECT DISTINCT rank, stream, seq, id FROM records)", "scalewatch"))
            self.assertGreater(records, STEPS)
            self.check_whole(lambda sql: both[0].query(sql, "scalewatch"), 2, records)
            self.assertGreater(metric(server, "scalewatch_shared_history_errors_total"), 0)
            # A goodbye is answered once all is there: what the marks say is what the clients were told.
            told = {r["rank"]: int(r["durable_seq"]) for r in run["ranks"]}
            marks = both[0].query("SELECT rank, max(last_seq) FROM batches WHERE rank < 100 GROUP BY rank ORDER BY rank", "scalewatch")
            self.assertEqual({int(l.split()[0]): int(l.split()[1]) for l in marks.splitlines()}, told)
            self.assertEqual(server.stop(), 0)

    def test_disk_full(self):
        if os.geteuid() != 0:
            self.skipTest("a small tmpfs needs root")
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=384m", "tmpfs", str(disk)], check=True)
        try:
            with clickhouse(disk) as there:
                server = self.server(settings=self.settings(there.url, "history.clickhouse.required=true"))
                trainer = self.spawn(self.demo_command(server, "hot", "--run", "full", "--ranks", "2", "--steps", str(STEPS)))
                wait_for("a batch", lambda: metric(server, "scalewatch_shared_history_batches_total") > 1)
                taken = subprocess.run(f"du -am {disk} | sort -n | tail -20", shell=True, capture_output=True, text=True).stdout
                filled = 0
                with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
                    while True:
                        filled += filler.write(bytes(1 << 16))
                self.assertGreater(filled, 0, f"the disk was full already: {taken}")
                wait_for("the refusal", lambda: metric(server, "scalewatch_shared_history_reachable") == 0)
                # The run goes on: what is durable here is folded, shown and kept.
                wait_for("the run", lambda: int(server.api("runs/full")["run"]["attempts"]) == STEPS, 120)
                self.assertIsNone(trainer.poll(), "a goodbye waits for what is not there")
                (disk / "filler").unlink()
                self.assertEqual(trainer.wait(120), 0)
                wait_for("all of it in ClickHouse", lambda: self.all_there(server), 60)
                records = int(there.query("SELECT count() FROM (SELECT DISTINCT rank, stream, seq, id FROM records)", "scalewatch"))
                self.check_whole(lambda sql: there.query(sql, "scalewatch"), 2, records)
                self.assertEqual(server.stop(), 0)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)

    def test_away_and_thinning(self):
        # Nobody answers there: local history is all there is, questions about it are answered, and what waits is bounded.
        there = ClickHouse(self.folder / "away")
        server = self.server(settings=self.settings(there.url, "history.clickhouse.max_lag=1MiB", "history.retention_every=1s"))
        self.demo(server, "hot", "--run", "alone", "--ranks", "2", "--steps", str(2 * STEPS))
        self.assertEqual(metric(server, "scalewatch_shared_history_reachable"), 0)
        self.assertGreater(metric(server, "scalewatch_shared_history_lag_bytes"), 0)
        wait_for("thinning", lambda: metric(server, "scalewatch_shared_history_thinning") == 1)
        wait_for("old statistics to go", lambda: server.api("runs/alone/attempts/7")["tensors"] == [])
        self.assertGreater(len(server.api(f"runs/alone/attempts/{2 * STEPS}")["tensors"]), 0)
        there.start()
        try:
            wait_for("all of it in ClickHouse", lambda: self.all_there(server), 60)
            self.assertEqual(metric(server, "scalewatch_shared_history_lag_bytes"), 0)
            self.assertEqual(metric(server, "scalewatch_shared_history_thinning"), 0)
            self.assertIn("the oldest records thin out to summaries", server.log_path.read_text())
            # What never thins is there of every attempt, and told of.
            for table in ("reports", "scalers"):
                self.assertEqual(there.query(f"SELECT uniqExact(attempt) FROM {table}", "scalewatch"), f"{2 * STEPS}\n", table)
            self.assertLess(int(there.query("SELECT uniqExact(attempt) FROM records", "scalewatch")), 2 * STEPS)
            self.assertIn("loss", server.api("runs/alone/attempts/7")["attempt"])
        finally:
            there.kill()
        self.assertEqual(server.stop(), 0)

    def test_tls_and_password(self):
        from guarded import Authority
        ours, other = Authority(self.folder, "ours"), Authority(self.folder, "other")
        secret = "not to be told"
        there = ClickHouse(self.folder / "guarded", password=secret, certificate=ours.issue("clickhouse"))
        self._stack.callback(there.kill)
        there.start()
        right, wrong = self.folder / "password", self.folder / "wrong"
        right.write_text(secret + "\n")
        wrong.write_text("guessed\n")

        def server(ca, **password):
            named = [f"history.clickhouse.{key}={value}" for key, value in password.items()]
            return self.server(settings=self.settings(there.url, f"history.clickhouse.ca_file={ca.file}", *named))

        whole = server(ours, password_file=right)
        self.demo(whole, "hot", "--run", "guarded", "--ranks", "2", "--steps", str(STEPS))
        wait_for("all of it in ClickHouse", lambda: self.all_there(whole), 60)
        records = int(there.query("SELECT count() FROM (SELECT DISTINCT rank, stream, seq, id FROM records)", "scalewatch"))
        self.check_whole(lambda sql: there.query(sql, "scalewatch"), 2, records)
        # An environment variable holds it as well as a file.
        named = self.server(settings=self.settings(there.url, f"history.clickhouse.ca_file={ours.file}",
                                                   "history.clickhouse.password_env=CLICKHOUSE_SECRET"), start=False)
        named.environment = {"CLICKHOUSE_SECRET": secret}
        named.start()
        refused = [(server(ours, password_file=wrong), "Wrong password"), (server(ours), "Password required"),
                   (server(other, password_file=right), "certificate")]
        for each, _ in [(named, ""), *refused]:
            self.demo(each, "healthy", "--run", f"run{each.grpc_port}", "--steps", "5")
        wait_for("all of it in ClickHouse", lambda: self.all_there(named), 60)
        for each, why in refused:
            wait_for("the refusal", lambda: metric(each, "scalewatch_shared_history_reachable") == 0)
            self.assertIn(why, each.log())
        # A password that is corrected needs no restart.
        wrong.write_text(secret + "\n")
        wait_for("all of it in ClickHouse", lambda: self.all_there(refused[0][0]), 60)
        for each in (whole, named, *(one for one, _ in refused)):
            self.assertNotIn(secret, each.log())
            self.assertEqual(each.stop(), 0)


if __name__ == "__main__":
    main()
