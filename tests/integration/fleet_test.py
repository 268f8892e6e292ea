"""Servers that share their runs: any answers for all, an owner that dies or stops is followed, and clocks need not agree."""
import contextlib
import json
import os
import pathlib
import sqlite3
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "durability"))
from facts import SETTINGS, assert_equal, facts
from fleets import FleetCase
from harness import BIN, get, main, wait_for

STEPS = 60
# What a run is, but for old attempts, which the server that took it over asks of the shared history.
STATE = ("state", "ranks", "scalers", "findings", "alerts")


class Fleet(FleetCase):
    maxDiff = None

    def run_named(self, servers, home, stem):
        """A name that belongs to that server."""
        return next(name for name in (f"{stem}{i}" for i in range(1000)) if self.order(servers, name)[0] == home)

    def finished(self, server, run):
        wait_for("the goodbye", lambda: self.summary(server, run)["status"] == "RUN_STATUS_FINISHED")

    def test_any_server_answers_for_all_runs(self):
        servers = self.fleet("ab")
        runs = {home: self.run_named(servers, home, mode) for home, mode in (("a", "hot"), ("b", "nan-data"))}
        jobs = [self.spawn(self.job(servers, mode, runs[home], "--steps", "60", "--batch", "16"))
                for home, mode in (("a", "hot"), ("b", "nan-data"))]
        for job in jobs:
            self.assertEqual(job.wait(180), 0)
        for server in servers.values():
            for home, run in runs.items():
                self.finished(server, run)
                self.assertEqual(self.summary(server, run)["instance"], home)
        told = [{name: json.loads(json.dumps(part(server))) for name, part in {
            "runs": lambda s: sorted(r["name"] for r in s.api("runs")["runs"]),
            "pages": lambda s: self.paged(s, "runs", "runs", "run_uid"),
            "alerts": lambda s: [a["id"] for a in s.cli_json("alerts", "--all")["alerts"]],
            "alert pages": lambda s: self.paged(s, "alerts", "alerts", "id"),
            "a": lambda s: {part: told for part, told in s.api(f"runs/{runs['a']}").items() if part != "ranks"},
            "b": lambda s: {part: told for part, told in s.api(f"runs/{runs['b']}").items() if part != "ranks"},
            "tensors": lambda s: s.cli("export", runs["b"], "--format", "jsonl", "--what", "tensors")[1],
        }.items()} for server in servers.values()]
        self.assertEqual(told[0]["runs"], sorted(runs.values()))
        self.assertEqual(len(set(told[0]["pages"])), 2)
        self.assertEqual({a.split("/")[0] for a in told[0]["alerts"]}, {told[0][home]["run"]["run_uid"] for home in runs})
        self.assertEqual(sorted(told[0]["alert pages"]), sorted(set(told[0]["alert pages"])))
        for part in told[0]:
            self.assertEqual(told[0][part], told[1][part], part)
        # What changes something, too: asked of the one, done where the run is, seen by both.
        a, b = servers.values()
        reason = "maintenance of the rack"
        a.cli("alerts", "silence", "run=" + runs["b"], "--for", "1h", "--reason", reason)
        for server in (a, b):
            self.assertEqual(len(server.api("silences")["silences"]), 1)
        b.cli("alerts", "unsilence", b.api("silences")["silences"][0]["id"])
        for server in (a, b):
            self.assertEqual(server.api("silences")["silences"], [])
        self.assertNotEqual(a.cli("show", "no-such-run", check=False)[0], 0)
        for server in servers.values():
            self.assertEqual(server.stop(), 0)

    @staticmethod
    def paged(server, path, what, key):
        out, token = [], ""
        while True:
            page = server.api(f"{path}?page_size=1&page_token={token}")
            out += [row[key] for row in page[what]]
            token = page["next_page_token"]
            if not token:
                return out

    def test_a_tail_follows_its_run(self):
        servers = self.fleet("ab")
        run = self.run_named(servers, "a", "tail")
        job = self.spawn(self.job(servers, "healthy", run, "--steps", "80", "--batch", "16", "--step-ms", "50"))
        wait_for("the run", lambda: self.summary(servers["b"], run)["attempts"] != "0")
        tail = subprocess.run([str(BIN / "scalewatch"), "--server", servers["b"].address, "--json", "tail", run], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(job.wait(180), 0)
        attempts = [int(json.loads(line)["attempt"]["attempt"]) for line in tail.stdout.splitlines() if "attempt" in json.loads(line)]
        self.assertEqual(tail.returncode, 0, tail.stderr)
        self.assertEqual(attempts, list(range(attempts[0], 81)))

    def model(self, mode):
        server = self.server(settings=SETTINGS)
        self.demo(server, mode, "--run", mode, "--ranks", "2", "--steps", str(STEPS), "--batch", "16", "--step-ms", "60", "--progress", "0")
        return {part: told for part, told in facts(server, mode).items() if part in STATE}

    def followed(self, leave, after=25):
        """Two ranks train while their server leaves; the run that another one took over equals one of a single server."""
        mode = "nan-data"
        expected = self.model(mode)
        servers = self.fleet("abc", self.click(), settings=SETTINGS)
        job = self.spawn(self.job(servers, mode, mode, "--ranks", "2", "--steps", str(STEPS), "--batch", "16", "--step-ms", "60"))
        first = self.owner(servers, mode)
        wait_for("some attempts", lambda: int(self.summary(servers[first], mode)["attempts"]) >= after)
        leave(servers[first])
        second = self.owner(servers, mode, but=first)
        self.assertEqual(second, self.order(servers, mode)[1])
        self.assertEqual(job.wait(180), 0)
        self.finished(servers[second], mode)
        # The one of before comes back, and knows that the run is not its own any more.
        servers[first].start()
        self.assertEqual(self.summary(servers[first], mode)["instance"], second)
        for server in servers.values():
            wait_for("one run of that name", lambda: [r["name"] for r in server.api("runs")["runs"]] == [mode])
        found = facts(servers[second], mode)
        assert_equal(self, expected, found, "the run that was taken over")
        return servers

    def test_a_killed_server_is_followed(self):
        self.followed(lambda server: server.kill())

    def test_a_server_killed_before_anything_was_shared_loses_nothing(self):
        self.followed(lambda server: server.kill(), after=2)

    def test_a_run_that_began_anew_is_taken_over_by_its_first_server(self):
        """What the first server had was not shared: it is an older run of the name when it takes over what the second one made."""
        mode = "nan-data"
        expected = self.model(mode)
        servers = self.fleet("ab", self.click(), settings=SETTINGS, every="1500ms")
        job = self.spawn(self.job(servers, mode, mode, "--ranks", "2", "--steps", str(STEPS), "--batch", "16", "--step-ms", "150"))
        first = self.owner(servers, mode)
        wait_for("an attempt", lambda: int(self.summary(servers[first], mode)["attempts"]) >= 1)
        servers[first].kill()
        second = self.owner(servers, mode, but=first)
        servers[first].start()
        batches = "scalewatch_shared_history_batches_total "
        wait_for("what clients are told of", lambda: any(line.startswith(batches) and float(line.split()[1]) >= 2
                                                         for line in get(servers[second].http + "/metrics").splitlines()))
        servers[second].kill()
        self.assertEqual(self.owner(servers, mode, but=second), first)
        self.assertEqual(job.wait(180), 0)
        self.finished(servers[first], mode)
        self.assertEqual([loss for rank in servers[first].api(f"runs/{mode}")["ranks"] for loss in rank["losses"]], [])
        assert_equal(self, expected, facts(servers[first], mode), "the run that was begun twice")

    def test_a_stopping_server_hands_its_runs_over(self):
        self.followed(lambda server: self.assertEqual(server.stop(), 0))

    def test_a_run_that_ended_before_it_was_shared_is_shared_after_a_restart(self):
        clickhouse = self.click()
        servers = self.fleet("ab", clickhouse, required=False)
        run = self.run_named(servers, "a", "ended")
        job = self.spawn(self.job(servers, "healthy", run, "--steps", str(STEPS), "--batch", "16", "--step-ms", "60"))
        there = "SELECT uniqExact(attempt) FROM reports"
        wait_for("some of it", lambda: int(clickhouse.query(there, "scalewatch")))
        clickhouse.kill()
        self.assertEqual(job.wait(180), 0)
        self.finished(servers["a"], run)
        servers["a"].kill()
        servers["a"].start()  # and can't read whose its runs are
        clickhouse.start()
        status = f"SELECT argMax(status, version) FROM runs WHERE name = '{run}'"
        wait_for("all of it", lambda: (clickhouse.query(there, "scalewatch"), clickhouse.query(status, "scalewatch")) == (f"{STEPS}\n", "2\n"))

    def test_a_store_put_back_from_a_backup_gets_what_was_shared_since(self):
        """One run goes on while the server is away, the other one has ended since the backup and nobody comes for it."""
        clickhouse = self.click()
        servers = self.fleet("a", clickhouse, settings=SETTINGS)
        server = servers["a"]
        jobs = [self.spawn(self.job(servers, "nan-data", run, "--ranks", "2", "--steps", str(steps), "--batch", "16", "--step-ms", "60"))
                for run, steps in (("goes-on", 300), ("ends", 80))]
        wait_for("some attempts", lambda: all(int(self.summary(server, run)["attempts"]) > 20 for run in ("goes-on", "ends")))
        backup = self.folder / "backup.db"
        server.cli("admin", "--data-dir", str(server.data), "backup", str(backup))
        self.finished(server, "ends")
        self.assertEqual(jobs[1].wait(60), 0)
        wait_for("all of it", lambda: clickhouse.query("SELECT status FROM runs FINAL WHERE name = 'ends'", "scalewatch") == "2\n")
        self.assertEqual(server.stop(), 0)
        for file in server.data.glob("history.db*"):
            file.unlink()
        backup.rename(server.data / "history.db")
        server.start()
        self.finished(server, "ends")
        self.assertEqual(jobs[0].wait(180), 0)
        self.finished(server, "goes-on")
        for run, steps in (("goes-on", 300), ("ends", 80)):
            told = server.api(f"runs/{run}")
            self.assertEqual(told["run"]["attempts"], str(steps))
            self.assertEqual([loss for rank in told["ranks"] for loss in rank["losses"]], [])
            self.assertIn("NonFiniteLoss", [finding["rule"] for finding in told["findings"]])
        twice = "SELECT count() FROM (SELECT pos, term FROM reports GROUP BY run, pos, term HAVING uniqExact(rank, stream, seq) > 1)"
        self.assertEqual(clickhouse.query(twice, "scalewatch"), "0\n")
        wait_for("its end", lambda: clickhouse.query("SELECT status FROM runs FINAL", "scalewatch") == "2\n2\n")

    def test_a_page_that_was_never_shared_is_ended_by_who_sent_it(self):
        """Its server died before the run was shared, the trainer with it; the job began anew elsewhere, as another run."""
        clickhouse = self.click()
        sink = self.sink()
        servers = self.fleet("ab", clickhouse, sinks=[{"name": "hook", "type": "webhook", "url": sink.url, "min_severity": "info"}], required=False)
        run = self.run_named(servers, "a", "page")
        clickhouse.kill()
        job = self.spawn(self.job(servers, "nan-data", run, "--steps", "100000", "--batch", "16", "--step-ms", "20"))
        wait_for("a page", lambda: sink.bodies())
        servers["a"].kill()
        job.kill()
        job.wait()
        first = {body["alert_id"].split("/")[0] for body in sink.bodies()}
        clickhouse.start()
        wait_for("b to miss it", lambda: "is gone" in servers["b"].log())
        again = self.spawn(self.job(servers, "healthy", run, "--steps", "200", "--batch", "16", "--step-ms", "20"))
        wait_for("the run", lambda: self.summary(servers["b"], run)["attempts"] != "0")
        servers["a"].start()
        self.assertEqual(again.wait(180), 0)

        def told(transition):
            return {body["alert_id"] for body in sink.bodies() if body["transition"] == transition and body["alert_id"].split("/")[0] in first}

        wait_for("their ends", lambda: told("resolved") >= told("firing"))

    def test_a_run_that_retention_removed_is_brought_once_for_many_questions(self):
        clickhouse = self.click()
        server = self.fleet("a", clickhouse, settings=("history.max_age=1s", "history.retention_every=1s"))["a"]
        self.assertEqual(self.spawn(self.job({"a": server}, "healthy", "old", "--steps", str(STEPS), "--batch", "16")).wait(180), 0)
        self.finished(server, "old")
        there = "SELECT argMax(status, version) FROM runs WHERE name = 'old'"
        wait_for("its end in ClickHouse", lambda: clickhouse.query(there, "scalewatch") == "2\n")
        server.kill()
        server.start()  # a run that has ended is not in its memory any more

        def stored():
            with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as history:
                return [number for number, in history.execute("SELECT id FROM streams")]

        wait_for("its removal", lambda: not stored())
        brought = set()
        for _ in range(4):
            self.assertEqual(self.summary(server, "old")["attempts"], str(STEPS))
            self.assertEqual(server.api("runs/old/attempts/3")["attempt"]["attempt"], "3")
            brought.update(stored())
            time.sleep(3)  # while retention looks
        brought.update(stored())
        self.assertEqual(len(brought), 1, brought)  # their numbers are not given out again

    def test_a_run_that_is_called_as_another_ones_run_uid(self):
        servers = self.fleet("ab", self.click())

        def train(run):
            self.assertEqual(self.spawn(self.job(servers, "healthy", run, "--steps", "20", "--batch", "16")).wait(120), 0)

        train("first")
        self.finished(servers["a"], "first")
        uid = self.summary(servers["a"], "first")["run_uid"]
        train(uid)
        for server in servers.values():
            wait_for("both", lambda: sorted((r["name"], r["attempts"], r["status"]) for r in server.api("runs")["runs"]) ==
                     sorted((name, "20", "RUN_STATUS_FINISHED") for name in ("first", uid)))
            self.assertNotIn("two servers at once", server.log())

    def test_a_server_whose_disk_is_full_is_nobodys_next_home(self):
        run, clickhouse = "next", self.click()
        servers = self.fleet("abc", clickhouse, settings=SETTINGS)
        first, full, last = self.order(servers, run)
        self.assertEqual(servers[full].stop(), 0)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(servers[full].data)],
                                               capture_output=True).returncode != 0:
            raise unittest.SkipTest("a file system of its own can't be mounted here (needs root and mount)")
        self._stack.callback(lambda: subprocess.run(["umount", "-l", str(servers[full].data)], capture_output=True))
        servers[full].start()
        filler = servers[full].data / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 65536)
        job = self.spawn(self.job(servers, "healthy", run, "--steps", str(STEPS), "--batch", "16", "--step-ms", "60"))
        self.assertEqual(self.owner(servers, run), first)
        wait_for("some attempts", lambda: int(self.summary(servers[first], run)["attempts"]) >= 25)
        servers[first].kill()
        self.assertEqual(self.owner(servers, run, but=first), last)
        self.assertEqual(job.wait(180), 0)
        self.finished(servers[last], run)
        told = servers[last].api(f"runs/{run}")
        self.assertEqual((told["run"]["attempts"], [loss for rank in told["ranks"] for loss in rank["losses"]]), (str(STEPS), []))
        self.assertIn("takes no runs", servers[full].log())
        filler.unlink()
        wait_for("room", lambda: "has room for runs again" in servers[full].log())

    def test_clocks_need_not_agree(self):
        shim = BIN.parent / "lib/libclock_shift.so"
        mode = "nan-data"
        expected = self.model(mode)
        servers = self.fleet("abc", self.click(), settings=SETTINGS)
        for name, hours in zip(self.order(servers, mode), (0, 3, -2)):
            server = servers[name]
            self.assertEqual(server.stop(), 0)
            shift = server.folder / "shift"
            shift.write_bytes(struct.pack("<q", hours * 3600 * 10**9))
            server.environment = {"LD_PRELOAD": str(shim), "CLOCK_SHIFT_FILE": str(shift)}
            server.start()
        job = self.spawn(self.job(servers, mode, mode, "--ranks", "2", "--steps", str(STEPS), "--batch", "16", "--step-ms", "250"))  # two kills, however slow the machine
        for _ in range(2):
            owner = self.owner(servers, mode)
            before = int(self.summary(servers[owner], mode)["attempts"])
            wait_for("some attempts", lambda: int(self.summary(servers[owner], mode)["attempts"]) > before + 8)
            servers[owner].kill()
            last = self.owner(servers, mode, but=owner)
        self.assertEqual(job.wait(180), 0)
        self.finished(servers[last], mode)
        assert_equal(self, expected, facts(servers[last], mode), "clocks three hours ahead and two behind")


if __name__ == "__main__":
    main()
