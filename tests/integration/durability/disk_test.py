"""A disk that is full, read-only or slow under a real server and a real trainer: alerts and live metrics go on, history pauses and
says so, durable_seq stands, and all goes on by itself; nothing is lost.

The full disk is a small tmpfs of the test's own (needs root; skipped without), the other two are a library that stands between
the server and its disk (needs a C compiler; skipped without).
"""
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import unittest
import urllib.error

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from facts import durable_seqs
from harness import BIN, ROOT, Case, end_with_parent, get, main, wait_for


class Disk(Case):
    def recording_server(self, data=None, settings=()):
        sink = self.sink()
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": sink.url, "min_severity": "info"}], settings=settings,
                             start=False)
        if data is not None:
            server.data = data
        return server, sink

    def job(self, server, run, steps, mode="healthy"):
        # Without an overflow every report is of an attempt of its own.
        return self.spawn(self.demo_command(server, mode, "--run", run, "--steps", str(steps), "--batch", "16", "--step-ms", "25",
                                            "--growth-interval", "100000", "--progress", "0"))

    def durable(self, server, run):
        return durable_seqs(server, run).get(0, 0)

    def told(self, sink, rule, transition):
        return [b for b in sink.bodies() if b["rule"] == rule and b["transition"] == transition]

    def check_whole(self, server, run, steps):
        """The trainer's every report is there once, and the run has lost nothing."""
        wait_for("the goodbye", lambda: server.api(f"runs/{run}")["run"]["status"] == "RUN_STATUS_FINISHED")
        whole = server.api(f"runs/{run}")["run"]
        self.assertEqual((int(whole["attempts"]), whole["lost_reports"]), (steps, "0"))
        self.assertEqual(server.stop(), 0)
        with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as store:
            found = store.execute("SELECT count(*), count(DISTINCT seq), min(seq), max(seq) FROM reports WHERE run = "
                                  "(SELECT id FROM runs WHERE name = ?)", (run,)).fetchone()
        store.close()
        self.assertEqual(found, (steps, steps, 1, steps))

    def check_pause(self, server, sink, run, begin, end):
        """begin() takes the disk away, end() gives it back; a second run falls ill while it is away."""
        wait_for("durable reports", lambda: self.durable(server, run) >= 20)
        begin()
        wait_for("the pause", lambda: "history is degraded" in self.not_ready(server))
        wait_for("HistoryDegraded on the page", lambda: self.told(sink, "HistoryDegraded", "firing"))
        stands = self.shown(server, run)
        ill = self.job(server, "ill", 60, "no-update")
        wait_for("an alert of what happens meanwhile", lambda: [b for b in sink.bodies() if b["transition"] == "firing"
                                                                and b["rule"] != "HistoryDegraded"], 90)
        self.assertGreater(self.shown(server, run), stands, "metrics stand still")
        end()
        wait_for("history to go on", lambda: get(server.http + "/readyz"))
        wait_for("the resolve", lambda: self.told(sink, "HistoryDegraded", "resolved"))
        self.assertEqual(ill.wait(120), 0)
        keys = [b["key"] for b in sink.bodies()]
        self.assertEqual(len({(b["key"], b["transition"]) for b in sink.bodies()}), len(set(keys)), "one key a transition")

    @staticmethod
    def not_ready(server):
        try:
            get(server.http + "/readyz")
            return ""
        except urllib.error.HTTPError as error:
            return error.read().decode()

    @staticmethod
    def shown(server, run):
        """Attempts by /metrics: what is known now, durable or not."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in get(server.http + "/metrics").splitlines()
                   if line.startswith("scalewatch_attempts_total") and f'run="{run}"' in line)

    @staticmethod
    def lag(server):
        return next(float(line.split()[1]) for line in get(server.http + "/metrics").splitlines()
                    if line.startswith("scalewatch_ingest_lag_seconds "))

    def test_full(self):
        folder = self.folder / "disk"
        folder.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)],
                                               capture_output=True).returncode != 0:
            raise unittest.SkipTest("a file system of its own can't be mounted here (needs root and mount)")
        self._stack.callback(lambda: subprocess.run(["umount", "-l", str(folder)], capture_output=True))
        server, sink = self.recording_server(folder / "data")
        server.start()
        filler = folder / "filler"
        trainer = self.job(server, "full", 400)

        def fill():
            with open(filler, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 65536)
                except OSError:
                    pass

        before = None

        def begin():
            nonlocal before
            fill()
            wait_for("the pause", lambda: "history is degraded" in self.not_ready(server))
            before = self.stored(server)

        def end():
            self.assertEqual(self.stored(server), before, "durable_seq moved on a full disk")
            self.assertFalse((server.data / "ballast").exists())
            filler.unlink()

        self.check_pause(server, sink, "full", begin, end)
        self.assertEqual(trainer.wait(120), 0)
        self.assertTrue((server.data / "ballast").exists(), "the room kept for alerts is not back")
        self.check_whole(server, "full", 400)

    @staticmethod
    def stored(server):
        with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as store:
            found = store.execute("SELECT count(*), max(seq) FROM reports").fetchone()
        store.close()
        return found

    def shimmed(self, *settings):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise unittest.SkipTest("no C compiler")
        library = self.folder / "disk_shim.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library),
                        str(ROOT / "tests/integration/durability/disk_shim.c"), "-ldl"], check=True)
        switch = self.folder / "switch"
        switch.write_bytes(b"-")
        server, sink = self.recording_server(settings=settings)
        server.environment = {"LD_PRELOAD": str(library), "DISK_SHIM_FILE": str(switch), "DISK_SHIM_FOLDER": str(server.data)}

        def say(what):
            with open(switch, "r+b", buffering=0) as file:
                file.write(what)

        return server.start(), sink, say

    def test_read_only(self):
        server, sink, say = self.shimmed()
        trainer = self.job(server, "read-only", 300)
        wait_for("durable reports", lambda: self.durable(server, "read-only") >= 20)
        say(b"r")
        wait_for("the pause", lambda: "history is degraded" in self.not_ready(server))
        before = self.stored(server)
        shown = self.shown(server, "read-only")
        wait_for("live metrics", lambda: self.shown(server, "read-only") > shown)
        self.assertEqual(self.stored(server), before)
        say(b"-")
        wait_for("history to go on", lambda: get(server.http + "/readyz"))
        self.assertEqual(trainer.wait(120), 0)
        self.check_whole(server, "read-only", 300)

    def test_longer_than_a_buffer_lasts(self):
        """What a client could not keep while history stood still is announced when it goes on: each report is stored or told as lost."""
        server, sink, say = self.shimmed()
        ranks = range(2)
        trainer = subprocess.Popen([str(BIN / "client_load_trainer"), server.address, "long", str(len(ranks)), "300", "100", "12", "0", "65536"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
        self.addCleanup(trainer.stdout.close)
        self.addCleanup(trainer.kill)
        wait_for("durable reports", lambda: self.durable(server, "long") >= 20)
        say(b"r")
        wait_for("the pause", lambda: "history is degraded" in self.not_ready(server))
        time.sleep(6)  # of 100 reports a second the buffer holds one second's, and what is on its way a few more
        say(b"-")
        said = trainer.communicate(timeout=120)[0]
        totals = [[int(n) for n in row] for _, *row in sorted(re.findall(r"rank (\d+) attempts (\d+) durable (\d+) thinned \d+ lost (\d+)", said))]
        self.assertEqual(len(totals), len(ranks), said)
        wait_for("the goodbyes", lambda: server.api("runs/long")["run"]["status"] == "RUN_STATUS_FINISHED")
        told = [int(rank["lost_reports"]) for rank in server.api("runs/long")["ranks"]]
        wait_for("StatsDropped on the page", lambda: self.told(sink, "StatsDropped", "firing"))
        self.assertEqual(server.stop(), 0)
        with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as store:
            found = store.execute("SELECT count(*), count(DISTINCT seq), min(seq), max(seq) FROM reports GROUP BY rank ORDER BY rank").fetchall()
        store.close()
        for (attempts, durable, lost), announced, (count, distinct, first, last) in zip(totals, told, found, strict=True):
            print(f"of {attempts} reports {lost} were lost and announced, {count} stored")
            self.assertGreater(lost, 0, "the buffer held all: nothing is tested")
            self.assertEqual((durable, announced), (attempts, lost))
            self.assertEqual((count, first, last), (distinct, 1, attempts))
            self.assertEqual(count + lost, attempts)

    def test_one_run_is_refused(self):
        """The store refuses the rows of one run for good: that run waits and says so, and the other one notices nothing."""
        server, sink = self.recording_server()
        server.start()
        trainers = {run: self.job(server, run, 300) for run in ("refused", "other")}
        wait_for("durable reports", lambda: all(self.durable(server, run) >= 20 for run in trainers))

        def change(statement):
            with sqlite3.connect(server.history, timeout=30, isolation_level=None) as store:
                store.execute(statement)
            store.close()

        change("CREATE TRIGGER refuse BEFORE INSERT ON reports WHEN NEW.run = (SELECT id FROM runs WHERE name = 'refused') "
               "BEGIN SELECT RAISE(ABORT, 'not this run'); END")
        pages = wait_for("HistoryDegraded on the page", lambda: self.told(sink, "HistoryDegraded", "firing"))
        self.assertEqual({page["run"] for page in pages}, {"refused"})
        stands = self.durable(server, "refused")
        self.assertEqual(trainers["other"].wait(120), 0)
        wait_for("the other's goodbye", lambda: server.api("runs/other")["run"]["status"] == "RUN_STATUS_FINISHED")
        self.assertEqual(self.durable(server, "refused"), stands)
        uid = server.api("runs/refused")["run"]["run_uid"]
        self.assertIn(f"history of run {uid} pauses", server.log())
        change("DROP TRIGGER refuse")
        self.assertEqual(trainers["refused"].wait(120), 0)
        wait_for("the resolve", lambda: self.told(sink, "HistoryDegraded", "resolved"))
        self.assertEqual({body["run"] for body in sink.bodies() if body["rule"] == "HistoryDegraded"}, {"refused"})
        self.check_whole(server, "refused", 300)
        server.start()
        self.check_whole(server, "other", 300)

    def test_slow(self):
        """The server lags behind: that is in the metrics, an alert tells of it, and alerts say how late they are."""
        server, sink, say = self.shimmed("rules.ingest_lag=1s")
        trainer = self.job(server, "slow", 200)
        wait_for("durable reports", lambda: self.durable(server, "slow") >= 10)
        say(b"s")
        wait_for("the lag in the metrics", lambda: self.lag(server) > 1)
        wait_for("IngestLag on the page", lambda: self.told(sink, "IngestLag", "firing"))
        self.assertEqual(self.not_ready(server), "")
        say(b"-")
        wait_for("the resolve", lambda: self.told(sink, "IngestLag", "resolved"))
        wait_for("no lag in the metrics", lambda: self.lag(server) < 0.5)
        alert = next(a for a in server.cli_json("alerts", "--run", "slow", "--all")["alerts"] if a["finding"]["rule"] == "IngestLag")
        self.assertRegex(alert["trail"][0]["what"], r"^opened as .*; the server was \d+\.\d s behind$")
        self.assertEqual(trainer.wait(120), 0)
        self.check_whole(server, "slow", 200)


if __name__ == "__main__":
    main()
