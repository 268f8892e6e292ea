"""Recorded streams of the client protocol: how they lie on disk, how they are replayed, and what is kept of the run.

A file is a row of ClientMessages as they were sent, each after its length (4 bytes, little-endian).
"""
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, wait_for
from reflection import Client
from session import Session

WIRE = ROOT / "tests/data/wire"


def read(path):
    data, at, out = path.read_bytes(), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        out.append(data[at + 4:at + 4 + size])
        at += 4 + size
    return out


def write(path, messages):
    path.write_bytes(b"".join(struct.pack("<I", len(m)) + m for m in messages))


def replay(client, messages):
    """Says it all again; returns the run's name. The server must take every word and end the stream in order."""
    s = Session(client)
    s.send(messages[0])
    s.wait("HelloAck", lambda s: any(a.HasField("hello_ack") for a in s.answers))
    for message in messages[1:]:
        s.send(message)
    s.wait("the end after the goodbye", lambda s: s.status)
    if s.status[0].name != "OK" or s.faults():
        raise AssertionError(f"the server did not take it: {s.status} {s.faults()}")
    return s.new.FromString(messages[0]).hello.run


def facts_of(server, run):
    """What a later server must still say of it: numbers, not words."""
    wait_for("the goodbye", lambda: server.api(f"runs/{run}")["run"]["status"] == "RUN_STATUS_FINISHED")
    whole = server.api(f"runs/{run}")
    rows = [json.loads(line) for line in server.cli("export", run, "--format", "jsonl", "--what", "tensors")[1].splitlines()]
    octaves = []
    with Client(server.address) as client:
        for attempt in range(1, min(int(whole["ranks"][0]["last_attempt"]), 20) + 1):
            told = client.call("scalewatch.v1.History/GetAttempt", run=run, attempt=attempt, octaves=True, or_next=True)
            if int(told["attempt"]["attempt"]) == attempt:
                octaves += [[attempt, t["info"]["name"], t["octaves"]["first"], t["octaves"]["counts"]] for t in told["tensors"] if "octaves" in t] \
                    if "tensors" in told else []
    return {
        "octaves": octaves,
        "run": {k: whole["run"][k] for k in ("segment", "world_size", "attempts", "applied", "skipped", "partial", "last_step", "scale",
                                             "labels", "lost_reports", "thinned_reports", "framework", "compute_dtype")},
        "ranks": [{k: r[k] for k in ("rank", "said_goodbye", "last_attempt", "durable_seq", "lost_reports")} for r in whole["ranks"]],
        "losses": [{k: loss[k] for k in ("cause", "reports")} for r in whole["ranks"] for loss in r.get("losses", []) if loss["reports"] != "0"],
        "scalers": [{k: s[k] for k in ("name", "policy", "parameters", "scale", "applied", "skipped")} for s in whole["scalers"]],
        "rules": sorted({f["rule"] for f in whole["findings"]} & {"NonFiniteLoss", "Misuse", "StatsDropped"}),
        "tensors": rows,
    }


def missing(expected, found, where=""):
    """Where `found` lacks something of `expected`, as lines; what later servers say beyond it is theirs."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [line for k, v in expected.items() for line in
                (missing(v, found[k], f"{where}.{k}") if k in found else [f"{where}.{k} is gone, was {v!r}"])]
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return [f"{where}: {len(found)} instead of {len(expected)}"]
        return [line for i, (a, b) in enumerate(zip(expected, found)) for line in missing(a, b, f"{where}[{i}]")]
    return [] if expected == found else [f"{where}: {found!r} instead of {expected!r}"]
