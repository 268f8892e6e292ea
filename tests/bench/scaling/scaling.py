#!/usr/bin/python3 -B
"""What 1 to 100,000 ranks need, by a small simulation whose constants are measured.

  tests/bench/scaling/scaling.py [--tensors N] [--rate R] [--replica N] [--cores N] [--write]

A server is a queue that its cores empty: ranks report at moments of their own, each report costs a fixed time and one for each of its
records, and what was folded becomes durable with the next commit, 50 ms later. The two costs are taken from two measured points of
measured.json; the others there are predicted and held against what was measured, and the error is printed. An instance is full when
its cores are busy for 60% of the time with every other instance up, or when the 99th percentile of the time until a report is durable
exceeds 1 s; there are enough of them when one may fail.
"""
import argparse
import heapq
import json
import math
import pathlib
import random

PAGE = pathlib.Path(__file__).resolve().parents[3] / "deploy/SCALING.md"
MEASURED = json.loads((pathlib.Path(__file__).parent / "measured.json").read_text())
COMMIT_S, LAG_S, BUSY, BUSY_WITHOUT_ONE = 0.05, 1.0, 0.6, 0.9
DAY_S = 86_400
RUN_RANKS = 1_000  # of a run, where there are as many ranks
NODE_CORES = 2     # of a ClickHouse node
LOG_DAYS = 3       # history.clickhouse.keep_log


def line_through(points, value):
    """fixed, per_tensor of value = fixed + per_tensor * tensors through two points."""
    low, high = sorted(points, key=lambda point: point["tensors"])
    slope = (value(high) - value(low)) / (high["tensors"] - low["tensors"])
    return value(low) - slope * low["tensors"], slope


class Model:
    def __init__(self):
        points = [point for point in MEASURED["ingest"] if point["use"] == "calibrate"]
        self.report_us, self.record_us = line_through(points, lambda point: point["cpu_us"])
        # What the process takes with no stream is what is left of the smallest point at the smallest rank's share.
        few = min(MEASURED["ingest"], key=lambda point: point["memory_mb"])
        many = points[0] if points[0]["tensors"] == 1 else points[1]
        self.stream_mb = (many["memory_mb"] - few["memory_mb"]) / (many["streams"] - few["streams"])
        self.base_mb = few["memory_mb"] - self.stream_mb * few["streams"]
        full = max(points, key=lambda point: point["tensors"])
        self.tensor_mb = ((full["memory_mb"] - self.base_mb) / full["streams"] - self.stream_mb) / full["tensors"]

    def cpu_us(self, records):
        return self.report_us + self.record_us * records

    def memory_mb(self, streams):
        """streams: [(how many, tensors each)]"""
        return self.base_mb + sum(count * (self.stream_mb + self.tensor_mb * tensors) for count, tensors in streams)


def durable_after_p99(model, cores, ranks, rate, seconds=12.0):
    """Simulates one instance; ranks: [(how many, records a report)]. Seconds until durable, 99th percentile; infinite when it never catches up."""
    dice = random.Random(1)
    arrivals = []
    for count, records in ranks:
        cost = model.cpu_us(records) / 1e6
        for _ in range(count):
            at = dice.uniform(0, 1 / rate)
            while at < seconds:
                arrivals.append((at, cost))
                at += dice.gauss(1, 0.02) / rate
    arrivals.sort()
    free = [0.0] * cores
    waits = []
    for at, cost in arrivals:
        done = max(heapq.heappop(free), at) + cost
        heapq.heappush(free, done)
        waits.append(math.ceil(done / COMMIT_S) * COMMIT_S + COMMIT_S / 2 - at)
    if max(free) > seconds + LAG_S:
        return math.inf
    waits.sort()
    return waits[int(len(waits) * 0.99)] if waits else 0.0


def spread(ranks, replica, leaders):
    """(ranks that send full statistics, ranks that do not), all runs together."""
    if not leaders:
        return ranks, 0
    runs, last = divmod(ranks, RUN_RANKS)
    full = runs * min(replica, RUN_RANKS) + min(replica, last)
    return full, ranks - full


def instances_for(model, options, ranks, leaders):
    """How many servers, with one that may fail; their load, and the lag of one, in seconds."""
    full, bare = spread(ranks, options.replica, leaders)
    cores = (full * model.cpu_us(options.tensors) + bare * model.cpu_us(1)) * options.rate / 1e6
    count = max(1, math.ceil(cores / (options.cores * BUSY)))
    if ranks > RUN_RANKS:  # a single job is as well off with one server, and one in reserve
        count = max(count, 2)
        while cores / ((count - 1) * options.cores) > BUSY_WITHOUT_ONE:
            count += 1
    while True:
        share = [(math.ceil(full / count), options.tensors), (math.ceil(bare / count), 1)]
        # Of many ranks a part is simulated, on a part of the cores.
        part = max(1, sum(n for n, _ in share) // 4_000)
        cores_used = max(1, options.cores // part)
        scale = cores_used / options.cores
        lag = durable_after_p99(model, cores_used, [(round(n * scale), records) for n, records in share], options.rate)
        if lag <= LAG_S:
            return count, cores, lag, model.memory_mb(share)
        count += 1


def table(model, options):
    head = ("ranks", "statistics from", "servers", "cores busy in all", "durable after, p99", "memory of a server", "its disk a day",
            "all disks a day", "Prometheus series", "cores busy to feed ClickHouse", "servers that takes", "its nodes of two cores",
            "its disks a day", "its log of 72 h, in all")
    rows = []
    for ranks in (1, 100, 1_000, 10_000, 100_000):
        for leaders in (False, True):
            full, bare = spread(ranks, options.replica, leaders)
            if leaders and bare == 0:
                continue
            count, cores, lag, memory = instances_for(model, options, ranks, leaders)
            a_day = options.rate * DAY_S
            disk = (full * options.tensors * MEASURED["bytes_a_record_in_chunks"] + bare * MEASURED["bytes_a_bare_report"]) * a_day
            runs = math.ceil(ranks / RUN_RANKS)
            there = shared(options, full, bare, count)
            rows.append((f"{ranks:,}", "every rank" if not leaders else f"{full:,} leaders", f"{count}", f"{cores:.3g}", f"{lag * 1e3:.0f} ms",
                         f"{memory:,.0f} MB", size(disk / count), size(disk), f"{runs * MEASURED['series_a_run']:,.0f}", *there))
    return [head, *rows]


def shared(options, full, bare, servers):
    """What the shared history takes: cores of the servers, servers (each feeds with one thread), nodes, disks a day, disks for the log
    as received."""
    click = MEASURED["clickhouse"]
    records, reports = full * options.tensors * options.rate, bare * options.rate
    feeding = (records * click["feeding_ns_a_record"] / 1e3 + reports * click["feeding_us_a_bare_report"]) / 1e6
    cores = (records * click["cpu_ns_a_record"] / 1e3 + reports * click["cpu_us_a_bare_report"]) / 1e6
    disk = (records * click["bytes_a_record"] + reports * click["bytes_a_bare_report"]) * DAY_S
    log = (records * click["bytes_a_record_of_the_log"] + reports * click["bytes_a_bare_report_of_the_log"]) * DAY_S * LOG_DAYS
    feeders = max(servers, math.ceil(feeding / BUSY))
    return f"{feeding:.2g}", f"{feeders}", f"{math.ceil(cores / (NODE_CORES * BUSY))}", size(disk), size(log)


def size(value):
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def markdown(rows):
    head, *rest = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rest))


def measured_table():
    points = MEASURED["ingest"]
    click = MEASURED["clickhouse"]

    def cpu(tensors):
        of = sorted(point["cpu_us"] for point in points if point["tensors"] == tensors)
        return f"{of[0]:.0f} to {of[-1]:.0f}" if len(of) > 1 else f"{of[0]:.0f}"

    memory = ", ".join(f"{point['streams']} of {point['tensors']}: {point['memory_mb']:.0f}" for point in
                       sorted(points, key=lambda point: point["memory_mb"]))
    return [
        ("what", "figure"),
        ("server's processor time for a report of 1; 100; 1,000 records, its share of compaction included",
         f"{cpu(1)}; {cpu(100)}; {cpu(1000)} µs"),
        ("server's memory, by streams and their tensors", memory + " MB"),
        ("disk: a record once in chunks; a report that holds no more than one record",
         f"{MEASURED['bytes_a_record_in_chunks']} B; at most {MEASURED['bytes_a_bare_report']} B"),
        ("`/metrics`: series of a run, however many ranks it has; processor time of a page",
         f"{MEASURED['series_a_run']:.0f}; {MEASURED['scrape_us_a_run']:.0f} µs a run"),
        ("ClickHouse 18.16 through a server, on the same two cores as server and clients: records a second until all was there; ClickHouse's "
         "processor time for a record; for a report without", f"{click['records_per_s'] / 1e6:.2f} million; {click['cpu_ns_a_record']:.0f} ns; "
         f"{click['cpu_us_a_bare_report']:.0f} µs"),
        ("what feeding it takes of a server: a record; a report without", f"{click['feeding_ns_a_record']:.0f} ns; "
         f"{click['feeding_us_a_bare_report']:.0f} µs"),
        ("its disk, LZ4 and merged: a record with its scores; a report without; of the log as received, for `keep_log`",
         f"{click['bytes_a_record']:.0f} B; {click['bytes_a_bare_report']:.0f} B; {click['bytes_a_record_of_the_log']:.0f} and "
         f"{click['bytes_a_bare_report_of_the_log']:.0f} B"),
    ]


def model_table(model):
    rows = [("streams", "tensors", "attempts/s", "CPU a report, measured", "predicted", "error", "memory, measured", "predicted", "error")]
    for point in MEASURED["ingest"]:
        cpu, memory = model.cpu_us(point["tensors"]), model.memory_mb([(point["streams"], point["tensors"])])
        error = "calibrated" if point["use"] == "calibrate" else f"{cpu / point['cpu_us'] - 1:+.0%}"
        rows.append((f"{point['streams']}", f"{point['tensors']}", f"{point['rate']}", f"{point['cpu_us']:.0f} µs", f"{cpu:.0f} µs", error,
                     f"{point['memory_mb']:.0f} MB", f"{memory:.0f} MB", f"{memory / point['memory_mb'] - 1:+.0%}"))
    return rows


def constants(model, options):
    serial = 1e6 / MEASURED["serial_us_a_report"]
    return (f"A report: {model.report_us:.0f} µs, and {model.record_us:.3f} µs a record; a stream: {model.stream_mb * 1e3:.0f} kB, and "
            f"{model.tensor_mb * 1e3:.2f} kB a tensor; a server: {model.base_mb:.0f} MB. The reports of one run are folded one after another, those of one "
            f"record in at most {MEASURED['serial_us_a_report']:.0f} µs each: {serial:,.0f} a second, {serial / options.rate:,.0f} ranks of a single "
            "run with few stats leaders.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=1_000, help="that a rank with full statistics sends an attempt")
    parser.add_argument("--rate", type=float, default=1.0, help="attempts a second")
    parser.add_argument("--replica", type=int, default=8, help="ranks of one data-parallel replica: those that send statistics")
    parser.add_argument("--cores", type=int, default=8, help="of a server")
    parser.add_argument("--write", action="store_true", help="put the tables where deploy/SCALING.md has them")
    options = parser.parse_args()
    model = Model()
    parts = {"measured": markdown(measured_table()), "model": markdown(model_table(model)), "constants": constants(model, options),
             "fleets": markdown(table(model, options))}
    if not options.write:
        print(f"{options.tensors:,} tensors, {options.rate:g} attempts a second, replicas of {options.replica} ranks, servers of "
              f"{options.cores} cores\n\n" + "\n\n".join(parts.values()))
        return
    text = PAGE.read_text()
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        before, rest = text.split(begin)
        text = before + begin + part + end + rest.split(end)[1]
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
