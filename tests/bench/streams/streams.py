"""Memory of a server with --streams streams of --tensors tensors, --every seconds between two attempts of a stream.

The streams are spoken by hand in one thread: a thousand real clients in one process would measure their own threads. Each run has
eight ranks. Values are random, of 64 kinds of report; the server takes them through all rules into its store. Prints the server's
resident memory as it goes, and its peak beside the goal.
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "integration"),
                str(pathlib.Path(__file__).resolve().parents[2] / "integration/durability")]
import crowd
from harness import Server
from reflection import Client

GOAL_MB = 512
KINDS = 64
RANKS = 8


def status_mb(pid, what):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(what)) / 1024


def blocks(words, tensors):
    """A report's records alone, serialized; Protobuf merges them into the report that they follow."""
    message = words.new()
    block = message.report.blocks.add(role=1, measured_under_scale=65536, target=3, count=tensors)
    for _ in range(tensors):
        largest = random.uniform(0.5, 8)
        block.min.append(-largest * random.uniform(0.8, 1))
        block.max.append(largest)
        block.absmin_nonzero.append(largest * 2.0 ** -random.randint(10, 20))
        block.sum.append(random.gauss(0, largest))
        block.sum_sq.append(largest * largest * random.uniform(100, 1000))
        block.zero.append(random.randint(0, 3))
        block.subnormal.append(random.randint(0, 40))
    return message.SerializeToString()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--every", type=float, default=2.0)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory(prefix="scalewatch-streams-")
    server = Server(folder.name).start()
    try:
        with Client(server.address) as client:
            words = crowd.Words(client)
            kinds = [blocks(words, options.tensors) for _ in range(KINDS)]
            names = [f"layers.{i // 8}.part{i % 8}.weight" for i in range(options.tensors)]
            table = words.table(names)
            for info in table.table.infos:
                info.numel = 4096

            class Rank(crowd.Rank):
                def __init__(self, *arguments):
                    super().__init__(*arguments)
                    self.table = table.SerializeToString()

                def report(self, seq):
                    return self.words.report(seq, ids=()).SerializeToString() + kinds[(seq * 7 + self.hello.hello.rank) % KINDS]

            crowd.Rank = Rank
            ranks = crowd.Crowd(client, server.address, -(-options.streams // RANKS), RANKS, options.every)
            began = time.monotonic()
            while (now := time.monotonic() - began) < options.seconds:
                time.sleep(5)
                if not options.json:
                    durable = sum(ranks.durable())
                    print(f"{now + 5:5.0f} s  {sum(r.connects > 0 for r in ranks.ranks):5} streams  {durable * options.tensors:>12,} records durable  "
                          f"{status_mb(server.process.pid, 'VmRSS'):6.0f} MB", flush=True)
            durable = sum(ranks.durable())
            figures = {"streams": sum(r.connects > 0 for r in ranks.ranks), "tensors": options.tensors,
                       "records_per_s": round(durable * options.tensors / (time.monotonic() - began)),
                       "server_peak_memory_mb": round(status_mb(server.process.pid, "VmHWM"), 1), "goal_mb": GOAL_MB}
            ranks.finish(300)
    finally:
        server.stop(120)
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"{figures['streams']} streams of {options.tensors} tensors, {figures['records_per_s']:,} records/s: "
              f"peak memory {figures['server_peak_memory_mb']} MB (goal {GOAL_MB})")


if __name__ == "__main__":
    main()
