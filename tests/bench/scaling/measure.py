#!/usr/bin/python3 -B
"""Measures the points that scaling.py calculates from, into measured.json: measure.py [--seconds N] [--only ingest|clickhouse].

Needs a machine with nothing beside, and the programs of `tests/bench/run ingest` and `tests/bench/run clickhouse` in build/release.
What measured.json says and no benchmark here prints (series, a bare report on disk) stays.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILE = pathlib.Path(__file__).parent / "measured.json"
# Streams, tensors, attempts a second of each; the first two calibrate the model, the others check it.
POINTS = ((256, 1, 5), (64, 1000, 2), (256, 100, 2), (32, 100, 10), (8, 1000, 20), (64, 1, 10))
CALIBRATE = 2


def told(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout)


def ingest(seconds):
    points = []
    for number, (streams, tensors, rate) in enumerate(POINTS):
        out = told("build/release/bin/scalewatch_bench_ingest", "--json", "--only", "--seconds", str(seconds), "--streams", str(streams),
                   "--tensors", str(tensors), "--rate", str(rate))
        # What was compacted once the load had ended belongs to it as well.
        after = out["compaction_cpu_ns_per_record"] * out["compaction_done_after_the_load"]
        points.append({"streams": streams, "tensors": tensors, "rate": rate,
                       "cpu_us": round((out["server_cpu_ns_per_record"] + after) * tensors / 1e3, 1),
                       "memory_mb": round(out["server_peak_memory_mb"], 1), "use": "calibrate" if number < CALIBRATE else "check"})
        print(points[-1], file=sys.stderr, flush=True)
    return points


def clickhouse(seconds, tensors, streams):
    out = told(sys.executable, "-B", "tests/bench/clickhouse/bench.py", "build/release/bin/scalewatch_bench_clickhouse", "--json", "--only",
               "inserts", "--seconds", str(seconds), "--tensors", str(tensors), "--streams", str(streams))
    print(out, file=sys.stderr, flush=True)
    return {name.strip(): value for name, value in out.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=12, help="of load for each point")
    parser.add_argument("--only", choices=("ingest", "clickhouse"))
    options = parser.parse_args()
    measured = json.loads(FILE.read_text())
    if options.only != "clickhouse":
        measured["ingest"] = ingest(options.seconds)
    if options.only != "ingest":
        full, bare = clickhouse(options.seconds, 1000, 8), clickhouse(options.seconds, 1, 64)
        # What a server takes with ClickHouse beyond what it takes without.
        alone = {tensors: told("build/release/bin/scalewatch_bench_ingest", "--json", "--only", "--measured", "--no-compaction", "--seconds",
                               str(options.seconds), "--streams", str(streams), "--tensors", str(tensors))["server_cpu_ns_per_record"]
                 for tensors, streams in ((1000, 8), (1, 64))}
        measured["clickhouse"] = {
            "records_per_s": full["until all was there"],
            "cpu_ns_a_record": full["ClickHouse's CPU a record"],
            "feeding_ns_a_record": round(full["scalewatchd's CPU a record"] - alone[1000], 1),
            "feeding_us_a_bare_report": round((bare["scalewatchd's CPU a record"] - alone[1]) / 1e3, 2),
            "cpu_us_a_bare_report": round(bare["ClickHouse's CPU a record"] / 1e3, 2),
            "bytes_a_record": round(full["bytes a record in records, merged"] + full["bytes a record in scores, merged"], 2),
            "bytes_a_record_of_the_log": full["bytes a record in payloads, merged"],
            "bytes_a_bare_report": round(sum(bare[f"bytes a {each}, merged"] for each in
                                             ("report in reports", "report in scalers", "record in records", "record in scores")), 1),
            "bytes_a_bare_report_of_the_log": bare["bytes a record in payloads, merged"],
        }
    FILE.write_text(json.dumps(measured, indent=2, ensure_ascii=False).replace(",\n      ", ", ").replace("{\n      ", "{").replace("\n    }", "}") + "\n")


if __name__ == "__main__":
    main()
