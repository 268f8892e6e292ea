"""What a run is, apart from when it was and what uid it got: the facts that a crash must not change.

They are read through the command, as a user would; two runs with the same inputs have equal facts.
"""
import json
import sqlite3

# Rules that tell of the server's own clock: a server that was down may say more, and only these.
OF_THE_CLOCK = {"HistoryDegraded", "IngestLag", "RankLost", "RunStalled"}

# Every rank's full statistics and nothing on demand, so that what is sent does not depend on when a wish arrives.
SETTINGS = ("collection.stats_leader=false", "collection.microscope=false", "engine.snapshot_every=300ms")


def rows(server, run, what):
    """The rows of `scalewatch export`, without times and with the run's uid as UID."""
    uid = server.api(f"runs/{run}")["run"]["run_uid"]
    out = []
    for line in server.cli("export", run, "--format", "jsonl", "--what", what)[1].replace(uid, "UID").splitlines():
        row = json.loads(line)
        row.pop("time_ms", None)
        out.append(row)
    return out


def facts(server, run):
    """Everything of a run that ended: its state, attempts, tensors, findings and alerts."""
    whole = server.api(f"runs/{run}")
    state = {key: whole["run"][key] for key in ("segment", "status", "attempts", "applied", "skipped", "partial", "last_step", "worst",
                                                "lost_reports", "thinned_reports", "scale", "loss", "labels")}
    ranks = [{key: rank[key] for key in ("rank", "said_goodbye", "last_attempt", "lost_reports")} for rank in whole["ranks"]]
    uid = whole["run"]["run_uid"]
    alerts = json.loads(json.dumps(server.cli_json("alerts", "--run", run, "--all")["alerts"]).replace(uid, "UID"))
    told = {a["id"]: {"state": a["state"], "finding": timeless(a["finding"])} for a in alerts if a["finding"]["rule"] not in OF_THE_CLOCK}
    return {
        "state": state,
        "ranks": ranks,
        "scalers": whole["scalers"],
        "attempts": rows(server, run, "attempts"),
        "findings": sorted((r for r in rows(server, run, "findings") if r["rule"] not in OF_THE_CLOCK), key=lambda r: r["id"]),
        "tensors": rows(server, run, "tensors"),
        "alerts": told,
    }


def timeless(finding):
    return {key: value for key, value in finding.items() if not key.endswith("_ms")}


def assert_equal(case, expected, found, where):
    """Compares facts part by part, so that a difference is told by its first row and not by megabytes."""
    for part, wanted in expected.items():
        got = found[part]
        if got == wanted:
            continue
        if isinstance(wanted, dict):
            wanted, got = list(wanted.items()), list(got.items())
        for row, (a, b) in enumerate(zip(wanted, got)):
            case.assertEqual(b, a, f"{where}: {part}, row {row}")
        case.assertEqual(len(got), len(wanted), f"{where}: {part}: rows")


def durable_seqs(server, run):
    """By rank: every report up to this was acknowledged as durable."""
    return {r["rank"]: int(r["durable_seq"]) for r in server.api(f"runs/{run}")["ranks"]}


def assert_stored_once(case, server, at_least, where):
    """On disk, with no server: each rank's reports are 1, 2, 3 ... once each, at least up to what was durable."""
    with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as store:
        found = store.execute("SELECT rank, COUNT(*), COUNT(DISTINCT seq), MIN(seq), MAX(seq) FROM reports GROUP BY rank").fetchall()
    store.close()
    for rank, count, distinct, first, last in found:
        case.assertEqual((count, distinct, first), (last, last, 1), f"{where}: rank {rank}")
    last = {rank: last for rank, _, _, _, last in found}
    for rank, seq in at_least.items():
        case.assertGreaterEqual(last.get(rank, 0), seq, f"{where}: rank {rank} lost durable reports")
