"""64 ranks that connect, die, resume and misbehave, for --minutes N: what the server's memory, descriptors and threads do.

48 ranks are real clients, six jobs of eight, of which one is killed, stopped or ends every few seconds and begins anew under its
name. 16 are hands that speak the protocol badly: half-open streams, bytes that are no message, reports that are refused, tables
that do not fit, repeats, gaps, zombies, a stream that is never read, a run that nobody knew. Beside them somebody reads /metrics and
asks for runs. Prints a row every --every seconds; at the end says whether memory, descriptors and threads stayed flat: the median of
the last third beside that of the middle third.
"""
import argparse
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
from harness import BIN, Server, end_with_parent, get
from reflection import Client, grpc
from session import Session

JOBS, RANKS, HANDS = 6, 8, 16
FLAT = 1.10  # the last third's median may be this much above the middle third's


class Job:
    """A name under which trainers follow each other."""

    def __init__(self, server, number, dice, log):
        self.server, self.number, self.dice, self.log = server, number, dice, log
        self.process = None
        self.starts = self.kills = self.stops = 0
        self.wake_at = 0.0

    def start(self):
        self.starts += 1
        seconds = self.dice.uniform(10, 60)
        self.process = subprocess.Popen(
            [str(BIN / "client_load_trainer"), self.server.address, f"soak-{self.number}", str(RANKS), str(self.dice.choice((20, 60, 120))),
             "5", f"{seconds:.0f}", str(self.dice.choice((0, 0, 37))), str(4 << 20)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=end_with_parent)

    def tick(self):
        now = time.monotonic()
        if self.process is None or self.process.poll() is not None:
            self.start()
        elif self.wake_at:
            if now >= self.wake_at:
                self.process.send_signal(signal.SIGCONT)
                self.wake_at = 0.0
        elif (roll := self.dice.random()) < 0.02:
            self.kills += 1
            self.process.kill()
            self.process.wait()
        elif roll < 0.03:
            self.stops += 1
            self.process.send_signal(signal.SIGSTOP)
            self.wake_at = now + self.dice.uniform(1, 25)

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def misbehave(client, hand, dice, counts):
    """One stream of a client that does one thing wrong; returns what it was."""
    run, kind = f"hand-{hand % 4}", dice.choice(("half-open", "garbage", "refused", "table", "repeat", "gap", "zombie", "unread", "new run",
                                                 "cut", "flood", "hello"))
    if kind == "new run":
        run = f"hand-{hand}-{dice.randrange(20)}"  # names are bounded, for runs are kept
    s = Session(client)
    rank = dict(rank=hand, world_size=HANDS)
    if kind == "hello":
        s.send(s.hello(run, rank=HANDS, world_size=1))
    elif kind == "half-open":
        time.sleep(dice.uniform(0, 5))
    elif kind == "zombie":
        s.send(s.hello(run, incarnation_order=1, **rank))
    else:
        s.open(run, names=[f"w{i}" for i in range(20)], **rank)
        if kind == "garbage":
            s.send(bytes(dice.randrange(256) for _ in range(200)))
        elif kind == "refused":
            for seq in range(1, 100):
                s.send(s.report(seq, ids=(0, 99), attempt=1 << 61 if seq % 2 else seq))
        elif kind == "table":
            s.send(s.table(["bad\n"], 20, 2))
        elif kind == "repeat":
            for _ in range(20):
                for seq in range(1, 10):
                    s.send(s.report(seq, ids=range(20)))
        elif kind == "gap":
            s.send(s.report(7))
        elif kind == "flood":
            for seq in range(1, 400):
                s.send(s.report(seq, ids=range(20)))
        elif kind == "unread":
            s.read_no_more()
            for seq in range(1, 400):
                s.send(s.report(seq))
        else:
            s.send(s.report(1, ids=range(20)))
    s.wait("end of the stream", lambda s: s.status, dice.uniform(0.5, 6), strict=False)
    s.cut()
    counts[kind] = counts.get(kind, 0) + 1


def hand_loop(address, hand, seed, over, counts, errors):
    dice = random.Random(seed)
    while not over.is_set():
        client = Client(address)
        try:
            for _ in range(dice.randrange(1, 8)):
                if over.is_set():
                    break
                misbehave(client, hand, dice, counts)
                over.wait(dice.uniform(0, 2))
        except (AssertionError, grpc.RpcError, LookupError) as error:
            errors.append(repr(error)[:200])
            over.wait(1)
        finally:
            client.close()


def sample(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status if ":" in line)
    return {"rss_mib": int(fields["VmRSS"].split()[0]) / 1024, "descriptors": len(os.listdir(f"/proc/{server.process.pid}/fd")),
            "threads": int(fields["Threads"])}


def metrics(server):
    out = {}
    for line in get(server.http + "/metrics").splitlines():
        if line and line[0] != "#" and "{" not in line:
            name, value = line.split()[:2]
            out[name] = float(value)
    return out


def flat(samples, field):
    third = len(samples) // 3
    middle = statistics.median(s[field] for s in samples[third:2 * third])
    last = statistics.median(s[field] for s in samples[2 * third:])
    return middle, last, last <= middle * FLAT


def soak(options):
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="scalewatch-soak-") as folder:
        # A bounded history, as a server has that runs for months.
        server = Server(folder, settings=("history.idle_after=10s", "history.retention_every=5s", "history.keep_attempts=500",
                                          "rules.rank_lost_after=10s", "metrics.finished_for=1min"))
        server.start()
        over, counts, errors, samples, rows = threading.Event(), {}, [], [], 0
        with open(pathlib.Path(folder) / "trainers.log", "ab") as log:
            jobs = [Job(server, n, dice, log) for n in range(JOBS)]
            hands = [threading.Thread(target=hand_loop, args=(server.address, h, options.seed * 100 + h, over, counts, errors))
                     for h in range(HANDS)]
            for hand in hands:
                hand.start()
            print(f"{JOBS * RANKS} ranks of real clients, {HANDS} hands, --seed {options.seed}")
            print("| minute | memory MiB | descriptors | threads | streams | reports | history MiB | lag s |\n|" + " --- |" * 8, flush=True)
            begin = time.monotonic()
            due = begin
            try:
                while time.monotonic() - begin < options.minutes * 60:
                    for job in jobs:
                        job.tick()
                    if server.process.poll() is not None:
                        raise SystemExit(f"the server ended with {server.process.returncode}: {server.log()}")
                    try:
                        now = metrics(server)
                        server.api("runs")
                    except OSError as error:  # 503 and the like: counted
                        errors.append(repr(error)[:200])
                        continue
                    samples.append(sample(server))
                    if time.monotonic() >= due:
                        due += options.every
                        rows += 1
                        size = sum(f.stat().st_size for f in server.data.rglob("*") if f.is_file()) / 2**20
                        print(f"| {(time.monotonic() - begin) / 60:.1f} | {samples[-1]['rss_mib']:.0f} | {samples[-1]['descriptors']} | "
                              f"{samples[-1]['threads']} | {now['scalewatch_ingest_streams_open']:.0f} | "
                              f"{now['scalewatch_ingest_reports_total']:.0f} | {size:.0f} | {now['scalewatch_ingest_lag_seconds']:.2f} |", flush=True)
                    time.sleep(1)
            finally:
                over.set()
                for hand in hands:
                    hand.join(30)
                for job in jobs:
                    job.end()
            status = server.stop()
        print(f"\n{sum(j.starts for j in jobs)} starts of jobs, {sum(j.kills for j in jobs)} killed, {sum(j.stops for j in jobs)} stopped for a "
              f"while; hands: {', '.join(f'{n} {kind}' for kind, n in sorted(counts.items()))}; {len(errors)} calls of all failed")
        for error in sorted(set(errors))[:5]:
            print("  " + error)
        good = status == 0
        for field in ("rss_mib", "descriptors", "threads"):
            middle, last, ok = flat(samples, field)
            good = good and ok
            print(f"{field}: median {middle:.0f} in the middle third, {last:.0f} in the last: {'flat' if ok else 'NOT FLAT'} "
                  f"(goal: at most {FLAT - 1:.0%} more)")
        print(f"the server ended with {status} (goal: 0)")
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=60, help="seconds between printed rows")
    parser.add_argument("--seed", type=int, default=1)
    sys.exit(soak(parser.parse_args()))
