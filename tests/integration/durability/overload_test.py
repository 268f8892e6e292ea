"""More than the server can take: what suffers first, what must not, and that it mends by itself.

The server is held to a small share of a core by stopping it once it has used that, so the tests do not depend on the machine.
"""
import pathlib
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BIN, Case, end_with_parent, findings, get, main, wait_for
from crowd import Crowd
from reflection import Client

PERIOD = 0.05


def cpu_seconds(process):
    return time.clock_gettime(~process.pid << 3 | 2)  # the kernel's number of that process's CPU clock


class Throttle:
    """Lets a process use `share` of one core. Ends with stop(), which leaves it running."""

    def __init__(self, process, share):
        self._process, self.share = process, share
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        allowed = cpu_seconds(self._process)
        while not self._over.is_set():
            begin = time.monotonic()
            # What it used beyond its share is missing from its next periods; what it left is not added.
            allowed = min(allowed, cpu_seconds(self._process)) + self.share * PERIOD
            if cpu_seconds(self._process) < allowed:
                self._process.send_signal(signal.SIGCONT)
                while time.monotonic() < begin + PERIOD and cpu_seconds(self._process) < allowed:
                    time.sleep(0.0005)
                self._process.send_signal(signal.SIGSTOP)
            time.sleep(max(0.0, begin + PERIOD - time.monotonic()))
        self._process.send_signal(signal.SIGCONT)

    def stop(self):
        self._over.set()
        self._thread.join()


def metrics(server):
    out = {}
    for line in get(server.http + "/metrics", timeout=60).splitlines():
        if line and line[0] != "#" and "{" not in line:
            name, value = line.split()[:2]
            out[name] = float(value)
    return out


def resident_mib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) / 1024


class Overload(Case):
    def job(self, server, run, ranks, tensors, pace, seconds, nan_every=0, buffer_bytes=0):
        return [str(BIN / "client_load_trainer"), server.address, run, str(ranks), str(tensors), str(pace), str(seconds), str(nan_every),
                str(buffer_bytes)]

    def start_job(self, *arguments, **more):
        process = subprocess.Popen(self.job(*arguments, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                   preexec_fn=end_with_parent)

        def end():
            process.kill()
            process.wait()
            process.stdout.close()

        self.addCleanup(end)
        return process

    def totals(self, text):
        rows = re.findall(r"attempts (\d+) durable (\d+) thinned (\d+) lost (\d+) longest_us (\d+)", text)
        return [[int(n) for n in row] for row in rows]

    def test_three_times_too_much(self):
        sink = self.sink()
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": sink.url, "min_severity": "info"}],
                             settings=("alerting.flap_times=0", "collection.stats_leader=false", "collection.microscope=false",
                                       "rules.event_resolve=10", "rules.ingest_lag=1s", "history.compaction=false"))
        # What a report costs, here and now and at that pace: the server gets a third of what the job will need.
        begun = cpu_seconds(server.process)
        measured = self.start_job(server, "before", 4, 10_000, 40, 3)
        self.assertEqual(measured.wait(120), 0)
        cost = (cpu_seconds(server.process) - begun) / metrics(server)["scalewatch_ingest_reports_total"]
        job = self.start_job(server, "much", 4, 10_000, 40, 20, nan_every=60)
        throttle = Throttle(server.process, cost * 4 * 40 / 3)
        self.addCleanup(throttle.stop)
        memory, lags = [], []
        while job.poll() is None:
            time.sleep(2)
            memory.append(resident_mib(server))
            lags.append(metrics(server)["scalewatch_ingest_lag_seconds"])
        throttle.stop()
        said = job.stdout.read()
        delays = self.alert_delays(sink, said)
        thinned = sum(row[2] for row in self.totals(said))
        print(f"{cost * 1e6:.0f} us of CPU a report; {thinned} of 3200 reports without full statistics; alerts after {statistics.median(delays):.2f} s, "
              f"the first, as it begins, after {delays[0]:.2f} s, the others at most {max(delays[1:]):.2f} s; "
              f"lag at most {max(lags):.2f} s; memory {memory[len(memory) // 2]:.0f} to {max(memory):.0f} MiB")
        # All scaler observations came, full statistics did not.
        self.assertEqual([row[1] for row in self.totals(said)], [800] * 4)
        self.assertEqual(sum(row[3] for row in self.totals(said)), 0)
        self.assertGreater(thinned, 0)
        told = {f["rule"] for f in findings(server, "much")}
        self.assertIn("StatsDropped", told)
        if max(lags) > 3:  # well beyond rules.ingest_lag; on a fast machine it stays below
            self.assertIn("IngestLag", told)
        self.assertLess(statistics.median(delays), 10)  # of 1 s, on a busy machine; without thinning it grows and grows
        self.assertLess(max(memory), memory[len(memory) // 2] + 64)
        # And by itself it is as before.
        wait_for("no lag", lambda: metrics(server)["scalewatch_ingest_lag_seconds"] < 1)
        wait_for("the end of IngestLag", lambda: not any(f["open"] for f in findings(server, "much", "IngestLag")))
        after = self.start_job(server, "after", 4, 10_000, 10, 3)
        self.assertEqual(after.wait(120), 0)
        self.assertEqual([row[1:4] for row in self.totals(after.stdout.read())], [[30, 0, 0]] * 4)

    def alert_delays(self, sink, said):
        """Seconds from each NaN of rank 0 to its alert at the sink; each must have come."""
        bad = [int(ms) / 1000 for ms in re.findall(r"nan_at (\d+)", said)]

        def fired():
            return sorted(when for when, _, body in sink.requests if body["rule"] == "NonFiniteLoss" and body["transition"] == "firing")

        wait_for("every alert", lambda: len(fired()) >= len(bad))
        self.assertEqual(len(fired()), len(bad))
        return [f - b for f, b in zip(fired(), bad)]

    def test_a_thousand_come_back_at_once(self):
        """kill -9 under 1,000 streams that all return at once: nothing that was acked is lost, nothing doubled, and memory is bounded."""
        server = self.server(settings=("metrics.max_runs=5",))
        client = Client(server.address)
        self.addCleanup(client.close)
        crowd = Crowd(client, server.address, runs=10, ranks=100, every=1.0)
        wait_for("every rank's first ack", lambda: min(crowd.durable()) >= 1, 180)
        before = resident_mib(server)
        durable = [(r.hello.hello.run, r.hello.hello.rank, r.durable) for r in crowd.ranks]
        server.kill()
        began = time.monotonic()
        server.start()
        wait_for("every rank to be back", lambda: min(r.connects for r in crowd.ranks) >= 2, 180)
        back = time.monotonic() - began
        wait_for("everything made meanwhile", lambda: all(now > then for now, (_, _, then) in zip(crowd.durable(), durable)), 180)
        crowd.finish(180)
        after = resident_mib(server)
        wait_for("the goodbyes", lambda: {r["status"] for r in server.api("runs")["runs"]} == {"RUN_STATUS_FINISHED"})
        self.assertEqual({r["lost_reports"] for r in server.api("runs")["runs"]}, {"0"})
        self.assertEqual(server.stop(), 0)
        with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as store:
            rows = store.execute("SELECT runs.name, rank, COUNT(*), COUNT(DISTINCT seq), MIN(seq), MAX(seq) FROM reports "
                                 "JOIN runs ON runs.id = reports.run GROUP BY 1, 2").fetchall()
        store.close()
        stored = {(run, rank): (count, distinct, first, last) for run, rank, count, distinct, first, last in rows}
        self.assertEqual(stored, {(r.hello.hello.run, r.hello.hello.rank): (r.seq, r.seq, 1, r.seq) for r in crowd.ranks})
        print(f"1,000 streams back {back:.1f} s after the start; {before:.0f} MiB before, {after:.0f} MiB at the end")
        self.assertLess(after, max(300, 3 * before))

    def test_everything_is_read_meanwhile(self):
        """Readers that ask for all of a run, over and over, beside ingest: acks and alerts go on, and what is read is what was told."""
        sink = self.sink()
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": sink.url, "min_severity": "info"}],
                             settings=("alerting.flap_times=0", "rules.event_resolve=10", "history.idle_after=1s"))
        self.assertEqual(subprocess.run(self.job(server, "read", 2, 200, 100, 5), stdin=subprocess.DEVNULL, capture_output=True).returncode, 0)
        job = self.start_job(server, "live", 2, 200, 20, 12, nan_every=60)
        reads, over = [], threading.Event()

        def read():
            while not over.is_set():
                begin = time.monotonic()
                lines = server.cli("export", "read", "--format", "jsonl", "--what", "tensors")[1].count("\n")
                reads.append((lines, time.monotonic() - begin))

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        self.assertEqual(job.wait(120), 0)
        over.set()
        for reader in readers:
            reader.join()
        said = job.stdout.read()
        attempts = self.totals(said)
        self.assertEqual([(a, d, lost) for a, d, _, lost, _ in attempts], [(240, 240, 0)] * 2)
        self.assertEqual(len({lines for lines, _ in reads}), 1, reads)
        delays = self.alert_delays(sink, said)
        print(f"{len(reads)} reads of {reads[0][0]} records, longest {max(s for _, s in reads):.1f} s; alerts after {max(delays):.2f} s at most")
        self.assertLess(max(delays), 10)  # of 1 s, on a busy machine


if __name__ == "__main__":
    main()
