"""Ranks that restart, repeat, come late, join, come back from the dead, and clocks that jump: what a run is after each.

Each test says what must be true and asks the API for the run, its ranks, attempts, findings and alerts.
"""
import mmap
import pathlib
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BIN, Case, findings, get, main, wait_for
from reflection import Client, grpc
from session import Session

DAY_MS = 86_400_000
# Rules that these lives may and must not wake, whatever else they do.
OF_LIFE = {"RankLost", "RunStalled", "EndedWithoutGoodbye", "StatsDropped", "RankDisagreement", "StepFrozen"}


class Rank(Session):
    """A rank that counts for itself what it sends: seq and attempt from 1, steps from `step`."""

    def __init__(self, client, run, rank, world, step=0, **hello):
        super().__init__(client)
        self.seq, self.step = 0, step
        self.open(run, rank=rank, world_size=world, **hello)

    def ack(self):
        return next(a.hello_ack for a in self.answers if a.HasField("hello_ack"))

    def send_attempts(self, count, **fields):
        for _ in range(count):
            self.seq += 1
            self.step += 1
            self.send(self.report(self.seq, step=self.step, **fields))

    def all_durable(self):
        if not self.wait("ack", lambda s: s.durable() == self.seq):
            raise AssertionError(f"{self.seq} reports were sent, the stream ended with {self.status}")


def together(ranks, attempts, **fields):
    """So many attempts of each, no rank more than four ahead: the server closes them complete."""
    for done in range(0, attempts, 4):
        for rank in ranks:
            rank.send_attempts(min(4, attempts - done), **fields)
        for rank in ranks:
            rank.all_durable()


class RankLife(Case):
    def life(self, *settings):
        server = self.server(settings=settings)
        client = Client(server.address)
        self.addCleanup(client.close)
        return server, client

    def run_of(self, server, run):
        return server.api(f"runs/{run}")["run"]

    def wait_closed(self, server, run, attempts):
        wait_for(f"{attempts} closed attempts", lambda: int(self.run_of(server, run)["attempts"]) == attempts)

    def attempt(self, client, run, number, segment=0):
        return client.call("scalewatch.v1.History/GetAttempt", run=run, attempt=number, segment=segment, summary_only=True)["attempt"]

    def rules(self, server, run):
        return {f["rule"] for f in findings(server, run)}

    def metrics(self, server):
        out = {}
        for line in get(server.http + "/metrics").splitlines():
            if line and line[0] != "#" and "{" not in line:
                name, value = line.split()[:2]
                out[name] = float(value)
        return out

    def test_what_a_run_is_decided_by_as_it_ends_is_told(self):
        """All that joined have gone while another rank is still waited for: their attempts close with the last goodbye, all at once.
        What is found in them opens and resolves in one commit, and sinks hear of both."""
        sink = self.sink()
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": sink.url, "min_severity": "info"}])
        client = Client(server.address)
        self.addCleanup(client.close)
        rank = Rank(client, "short", 0, 2)
        rank.send_attempts(10, loss=float("nan"))
        rank.all_durable()
        self.assertEqual(self.run_of(server, "short")["attempts"], "0")  # the second rank is waited for
        self.say_goodbye(rank)
        wait_for("its end", lambda: self.run_of(server, "short")["status"] == "RUN_STATUS_FINISHED")
        uid = self.run_of(server, "short")["run_uid"]
        alerts = [a["id"] for a in server.cli_json("alerts", "--run", "short", "--all")["alerts"]]
        self.assertIn("NonFiniteLoss", {alert.removeprefix(uid + "/").split("/")[0] for alert in alerts})
        wanted = {f"{alert}/{transition}" for alert in alerts for transition in ("firing", "resolved")}
        wait_for("each alert's firing and resolve", lambda: sink.keys() >= wanted)
        self.assertEqual(sink.keys(), wanted)

    def say_goodbye(self, *ranks):
        for rank in ranks:
            rank.send(rank.goodbye(rank.seq))
        for rank in ranks:
            rank.finish()
            self.assertEqual(rank.status[0], grpc.StatusCode.OK)

    def test_one_rank_restarts(self):
        """Same segment; its attempts go on after the closed ones; the old incarnation is fenced for ever; nothing is said of it."""
        server, client = self.life()
        first, second = (Rank(client, "one", r, 2) for r in range(2))
        together([first, second], 10)
        self.wait_closed(server, "one", 10)
        old_incarnation = second.sent_hello.hello.incarnation
        old_order = second.sent_hello.hello.incarnation_order
        second.cut()
        second = Rank(client, "one", 1, 2, step=10)
        self.assertEqual((second.ack().segment, second.ack().resume_after_seq), (1, 0))
        together([first, second], 10)
        self.wait_closed(server, "one", 20)
        zombie = Session(client)
        zombie.send(zombie.hello("one", rank=1, world_size=2, incarnation=old_incarnation, incarnation_order=old_order))
        self.assertEqual(zombie.ended()[0], grpc.StatusCode.ABORTED)
        self.assertEqual([f.cause for f in zombie.faults()], [1])  # FENCED
        self.say_goodbye(first, second)
        whole = server.api("runs/one")
        self.assertEqual([(s["segment"], int(s["attempts"])) for s in whole["segments"]][-1][0], 1)
        self.assertEqual([int(r["last_attempt"]) for r in whole["ranks"]], [20, 20])
        self.assertEqual((int(whole["run"]["applied"]), int(whole["run"]["lost_reports"])), (20, 0))
        for number in (10, 11, 20):
            told = self.attempt(client, "one", number)
            self.assertEqual((told["ranks"], int(told["step"])), ([0, 1], number), told)
        self.assertFalse(self.rules(server, "one") & OF_LIFE)

    def test_all_ranks_restart_and_repeat_steps(self):
        """A new segment whose attempts begin at 1 and whose steps go back; what was open before is settled; both are kept."""
        server, client = self.life()
        ranks = [Rank(client, "all", r, 2) for r in range(2)]
        together(ranks, 10)
        together(ranks, 3, loss=float("nan"))
        self.wait_closed(server, "all", 13)
        self.assertIn("NonFiniteLoss", self.rules(server, "all"))
        for rank in ranks:
            rank.cut()
        ranks = [Rank(client, "all", r, 2, step=5) for r in range(2)]
        self.assertEqual([r.ack().segment for r in ranks], [2, 2])
        together(ranks, 20)
        for rank in ranks:
            rank.step = 12  # and within one start the trainer goes back to a checkpoint, from step 25 to 13
        together(ranks, 20)
        self.wait_closed(server, "all", 40)
        self.say_goodbye(*ranks)
        whole = server.api("runs/all")
        self.assertEqual([(s["segment"], int(s["attempts"])) for s in whole["segments"]], [(1, 13), (2, 40)])
        self.assertEqual((int(whole["run"]["applied"]), int(whole["run"]["lost_reports"]), int(whole["run"]["last_step"])), (40, 0, 32))
        self.assertEqual([int(self.attempt(client, "all", n, s)["step"]) for s, n in ((1, 6), (2, 1), (2, 20), (2, 21))], [6, 6, 25, 13])
        alerts = server.cli_json("alerts", "--run", "all", "--all")["alerts"]
        of_loss = [a for a in alerts if a["finding"]["rule"] == "NonFiniteLoss"]
        self.assertEqual([a["state"] for a in of_loss], ["ALERT_STATE_RESOLVED"], of_loss)
        self.assertFalse({f["rule"] for f in findings(server, "all") if f.get("segment") == 2} & OF_LIFE)

    def test_a_run_begins_anew_while_retention_removes_it(self):
        server, client = self.life("history.max_age=1s", "history.retention_every=1s")
        old = Rank(client, "old", 0, 1)
        old.send_attempts(4000)
        old.all_durable()
        old.send(old.goodbye(old.seq))
        old.ended()
        client.close()
        server.kill()
        server.start()  # a run that has ended is not in its memory any more
        wait_for("its removal", lambda: "'old' is removed" in server.log_path.read_text())
        client = Client(server.address)
        self.addCleanup(client.close)
        ranks = [Rank(client, "old", 0, 1), Rank(client, "other", 0, 1)]
        for _ in range(50):
            for rank in ranks:
                rank.send_attempts(1)
            time.sleep(0.02)  # while rows of before go
        if ranks[0].ack().segment > 1:  # else it was gone already
            wait_for("the end of the removal", lambda: "'old' goes on" in server.log_path.read_text(), 20)
        for rank in ranks:
            rank.all_durable()
        server.kill()
        server.start()
        for run in ("old", "other"):
            rows = server.cli("export", run, "--format", "jsonl", "--what", "attempts")[1].splitlines()
            self.assertEqual(len(rows), 50, f"{run}: what was durable is there")

    def test_a_zombie_stops_for_good(self):
        """A stopped trainer wakes up after its successor began: its client is fenced and says so, its training goes on unharmed."""
        server, _ = self.life()
        old = self.spawn(self.demo_command(server, "healthy", "--run", "undead", "--steps", "600", "--batch", "4",
                                           "--step-ms", "5", "--progress", "0"))
        wait_for("the first attempts", lambda: int(self.run_of(server, "undead")["attempts"]) >= 5)
        old.send_signal(19)  # SIGSTOP
        self.demo(server, "healthy", "--run", "undead", "--steps", "60", "--batch", "4", "--progress", "0")
        old.send_signal(18)  # SIGCONT
        self.assertEqual(old.wait(120), 0)
        said = (self.folder / "scalewatch-demo.log").read_text()
        self.assertRegex(said, "monitoring of run 'undead' rank 0 stopped for good; training goes on: .*newer client of rank 0")
        run = self.run_of(server, "undead")
        self.assertEqual((run["status"], int(run["attempts"]), run["segment"]), ("RUN_STATUS_FINISHED", 60, 2))
        self.assertFalse(self.rules(server, "undead") & OF_LIFE)

    def test_two_jobs_under_one_name(self):
        """The newer job has the run, whole; each client of the older one is fenced and says why; neither trainer is disturbed."""
        server, _ = self.life()
        both = [self.demo_command(server, "healthy", "--run", "twice", "--ranks", "2", "--steps", str(steps), "--batch", "4",
                                  "--step-ms", "10", "--progress", "0") for steps in (400, 100)]
        older = self.spawn(both[0])
        wait_for("the first attempts", lambda: int(self.run_of(server, "twice")["attempts"]) >= 20)
        newer = subprocess.run(both[1], capture_output=True, text=True, timeout=120)
        self.assertEqual((newer.returncode, older.wait(120)), (0, 0), newer.stdout + newer.stderr)
        said = (self.folder / "scalewatch-demo.log").read_text()
        for rank in range(2):
            self.assertIn(f"monitoring of run 'twice' rank {rank} stopped for good", said)
        self.assertNotIn("stopped for good", newer.stderr)
        whole = server.api("runs/twice")
        self.assertEqual((whole["run"]["status"], whole["run"]["lost_reports"]), ("RUN_STATUS_FINISHED", "0"))
        self.assertEqual({r["said_goodbye"] for r in whole["ranks"]}, {True})
        self.assertEqual(len({r["last_attempt"] for r in whole["ranks"]}), 1, whole["ranks"])  # both count alike
        self.assertFalse(self.rules(server, "twice") & OF_LIFE)

    def test_a_rank_that_is_too_late(self):
        """Its attempts close without it and say so; what it brings later is stored and counted and reopens nothing."""
        server, client = self.life()
        ranks = [Rank(client, "late", r, 3) for r in range(3)]
        together(ranks, 5)
        self.wait_closed(server, "late", 5)
        together(ranks[:2], 20)
        self.wait_closed(server, "late", 25)
        before = self.run_of(server, "late")
        # Minutes later as far as the run can tell: all is closed. It had an infinity that the others did not have.
        ranks[2].send_attempts(10)
        ranks[2].send_attempts(10, loss=float("inf"))
        ranks[2].all_durable()
        wait_for("its last attempt", lambda: int(server.api("runs/late")["ranks"][2]["last_attempt"]) == 25)
        after = self.run_of(server, "late")
        self.assertEqual([after[k] for k in ("attempts", "applied", "skipped", "lost_reports")],
                         [before[k] for k in ("attempts", "applied", "skipped", "lost_reports")])
        told = [self.attempt(client, "late", number) for number in range(1, 26)]
        self.assertEqual([t["ranks"] for t in told], [[0, 1, 2]] * 25)
        without = {int(t["attempt"]): t["missing"] for t in told if t.get("missing")}
        self.assertEqual(without, {number: [2] for number in range(6, 26)})
        self.assertEqual(self.metrics(server)["scalewatch_ingest_reports_late_total"], 20)
        together(ranks, 1)
        self.wait_closed(server, "late", 26)  # and the next one is decided by all three again
        self.assertEqual(self.attempt(client, "late", 26).get("missing", []), [])
        self.say_goodbye(*ranks)
        self.assertEqual(self.run_of(server, "late")["status"], "RUN_STATUS_FINISHED")

    def test_ranks_join(self):
        """Elastic: the world grows while the others train on. The newcomer counts from where the run is."""
        server, client = self.life()
        ranks = [Rank(client, "grows", r, 2) for r in range(2)]
        together(ranks, 30)
        self.wait_closed(server, "grows", 30)
        ranks.append(Rank(client, "grows", 2, 3, step=30))
        self.assertEqual(ranks[2].ack().segment, 1)
        together(ranks, 10)
        self.wait_closed(server, "grows", 40)
        whole = server.api("runs/grows")
        self.assertEqual((whole["run"]["world_size"], [int(r["last_attempt"]) for r in whole["ranks"]]), (3, [40, 40, 40]))
        self.assertEqual(self.attempt(client, "grows", 31)["ranks"], [0, 1, 2])
        self.say_goodbye(*ranks)
        self.assertFalse(self.rules(server, "grows") & OF_LIFE)
        self.assertEqual(self.metrics(server)["scalewatch_ingest_reports_late_total"], 0)

    def test_clients_clocks_are_far_off(self):
        """Times shown are the server's; a restart still makes a segment; nothing else depends on a client's clock."""
        server, client = self.life()
        began = time.time() * 1000
        clocks = [1, 4_102_444_800_000]  # 1970 and 2100
        for segment in (1, 2):
            ranks = [Rank(client, "clocks", r, 2, start_time_ms=clocks[r]) for r in range(2)]
            self.assertEqual([r.ack().segment for r in ranks], [segment, segment])
            for rank, clock in zip(ranks, clocks):
                for _ in range(10):
                    rank.seq += 1
                    message = rank.report(rank.seq, loss=float("nan") if rank.seq == 10 else 1.0)
                    message.report.time_ms = clock + rank.seq
                    rank.send(message)
                rank.all_durable()
            self.wait_closed(server, "clocks", 10)
            self.say_goodbye(*ranks)
            self.assertEqual(self.run_of(server, "clocks")["status"], "RUN_STATUS_FINISHED")
        ended = time.time() * 1000
        times = [int(self.attempt(client, "clocks", 10, s)["time_ms"]) for s in (1, 2)]
        run = self.run_of(server, "clocks")
        for told in [*times, int(run["created_ms"]), int(run["last_report_ms"])]:
            self.assertTrue(began - 1000 <= told <= ended + 1000, (began, told, ended))
        alerts = server.cli_json("alerts", "--run", "clocks", "--all")["alerts"]
        self.assertEqual(len([a for a in alerts if a["finding"]["rule"] == "NonFiniteLoss"]), 2)
        self.assertFalse(self.rules(server, "clocks") & OF_LIFE)

    def test_a_silence_of_a_clock_that_was_ahead(self):
        """An hour's silence that was made a year from now ends an hour after the clock is right, with and without a restart."""
        shift = self.folder / "shift"
        shift.write_bytes(struct.pack("q", 365 * DAY_MS * 1_000_000))
        server = self.server(start=False)
        server.environment = {"LD_PRELOAD": str(BIN.parent / "lib/libclock_shift.so"), "CLOCK_SHIFT_FILE": str(shift)}
        server.start()

        def silences():
            return [(int(s["starts_ms"]), int(s["ends_ms"])) for s in server.cli_json("alerts", "silences")["silences"]]

        def expect_an_hour():
            (begin, end), = wait_for("the silence to begin now", lambda: [s for s in silences() if s[0] <= time.time() * 1000 + 1000])
            self.assertEqual(end - begin, 3_600_000)

        server.cli("alerts", "silence", "run=ahead", "--for", "1h", "--reason", "maintenance")
        self.assertGreater(silences()[0][0], time.time() * 1000 + 300 * DAY_MS, "the preloaded clock does not work")
        with open(shift, "r+b") as file, mmap.mmap(file.fileno(), 8) as offset:
            offset[:] = struct.pack("q", 0)
            expect_an_hour()
            offset[:] = struct.pack("q", 365 * DAY_MS * 1_000_000)
            server.cli("alerts", "silence", "run=again", "--for", "1h", "--reason", "maintenance")
        self.assertEqual(server.stop(), 0)
        shift.write_bytes(struct.pack("q", 0))
        server.start()
        wait_for("all silences of the clock that was ahead",
                 lambda: all(0 < end - time.time() * 1000 <= 3_601_000 for _, end in silences()))
        self.assertIn("while the clock was", server.log())

    def test_the_servers_clock_jumps(self):
        """A day ahead, then two days back: nobody is lost, attempts close, an alert fires and reaches its sink at once."""
        sink = self.sink()
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": sink.url, "min_severity": "info"}], start=False)
        shift = self.folder / "shift"
        shift.write_bytes(struct.pack("q", 0))
        server.environment = {"LD_PRELOAD": str(BIN.parent / "lib/libclock_shift.so"), "CLOCK_SHIFT_FILE": str(shift)}
        server.start()
        client = Client(server.address)
        self.addCleanup(client.close)
        ranks = [Rank(client, "jumps", r, 2) for r in range(2)]
        with open(shift, "r+b") as file, mmap.mmap(file.fileno(), 8) as offset:
            for jump, (days, loss) in enumerate(((0, 1.0), (1, 1.0), (-1, 1.0), (-1, float("nan")), (2, 1.0))):
                offset[:] = struct.pack("q", days * DAY_MS * 1_000_000)
                together(ranks, 10, loss=loss)
                self.wait_closed(server, "jumps", 10 * (jump + 1))
                told = int(self.attempt(client, "jumps", 10 * (jump + 1))["time_ms"])
                self.assertLess(abs(told - time.time() * 1000 - days * DAY_MS), 600_000, "the preloaded clock does not work")
            wait_for("the page", lambda: [b for b in sink.bodies() if b["rule"] == "NonFiniteLoss" and b["transition"] == "firing"])
            self.say_goodbye(*ranks)
        whole = server.api("runs/jumps")
        self.assertEqual((whole["run"]["status"], int(whole["run"]["attempts"]), whole["run"]["lost_reports"]),
                         ("RUN_STATUS_FINISHED", 50, "0"))
        self.assertFalse(self.rules(server, "jumps") & OF_LIFE)
        # A restart with the clock behind what the store holds: the run is there, and goes on.
        shift.write_bytes(struct.pack("q", -3 * DAY_MS * 1_000_000))
        self.assertEqual(server.stop(), 0)
        server.start()
        client = Client(server.address)
        self.addCleanup(client.close)
        ranks = [Rank(client, "jumps", r, 2) for r in range(2)]
        self.assertEqual([r.ack().segment for r in ranks], [2, 2])
        together(ranks, 10)
        self.wait_closed(server, "jumps", 10)
        self.say_goodbye(*ranks)


if __name__ == "__main__":
    main()
