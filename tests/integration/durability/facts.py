"""What a run is, apart from when it was and what uid it got: the facts that a crash must not change.

They are read through the command, as a user would; two runs with the same inputs have equal facts.
"""
import json
import sqlite3

# Rules that tell of the server's own clock: a server that was down may say more, and only these.
OF_THE_CLOCK = {"HistoryDegraded", "IngestLag", "RankLost", "RunStalled"}

# Every rank's full statistics and nothing on demand, so that what is sent does not depend on when a wish arrives; and ranks are waited
# for however slow the machine is.
SETTINGS = ("collection.stats_leader=false", "collection.microscope=false", "engine.snapshot_every=300ms",
            "rules.rank_lost_after=1h")


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
        "attempts": [{k: v for k, v in row.items() if k != "missing"} for row in rows(server, run, "attempts")],
        "findings": sorted((timeless(r) for r in rows(server, run, "findings") if r["rule"] not in OF_THE_CLOCK), key=lambda r: r["id"]),
        "tensors": rows(server, run, "tensors"),
        "alerts": told,
    }


def closed_without(server, told):
    """On disk, with no server: attempts that were decided before all ranks had told of them, {attempt: ranks}. A server that was away
    long enough, or was killed before a rank had joined, decides without it; what it found then may name fewer ranks than one that was
    never killed. `told`: what the API says of it (told_missing), which must be the same."""
    with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as store:
        inputs = store.execute("SELECT pos, payload FROM inputs ORDER BY pos").fetchall()
        reports = store.execute("SELECT attempt, rank, pos FROM reports WHERE retrospective = 0").fetchall()
    store.close()
    closed = {}
    for pos, payload in inputs:
        text = payload.decode(errors="replace")
        if '"attempt_closed"' in text:
            closed[json.loads(text[text.index("{"):text.rindex("}") + 1])["attempt"]] = pos
    late = {}
    for attempt, rank, pos in reports:
        if attempt not in closed or pos > closed[attempt]:
            late.setdefault(attempt, set()).add(rank)
    for attempt in closed:
        if told.get(attempt, set()) != late.get(attempt, set()):
            raise AssertionError(f"attempt {attempt}: the API says that ranks {told.get(attempt)} were missing, the log that {late.get(attempt)} were")
    return late


def told_missing(server, run):
    attempts = int(server.api(f"runs/{run}")["run"]["attempts"])
    each = ((n, server.api(f"runs/{run}/attempts/{n}?summary_only=true")["attempt"]["missing"]) for n in range(1, attempts + 1))
    return {attempt: set(ranks) for attempt, ranks in each if ranks}


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


# Of a finding that was decided without a rank: what must be as in the model all the same. Ranks have their own rule.
FIRM = ("rule", "subject", "segment", "severity", "open", "state")


def assert_equal_but_for(case, expected, found, without, where):
    """As assert_equal, but findings that hold an attempt of `without` may lack what its missing ranks had to say, and only that:
    they are there, are as grave, and name no rank that the model does not; ranks that they do not name were missing."""
    parts = ("findings", "alerts")
    assert_equal(case, {part: told for part, told in expected.items() if part not in parts}, found, where)
    for part in parts:
        wanted, got = ({f["id"]: f for f in side[part]} if part == "findings" else
                       {name: {**alert["finding"], "state": alert["state"]} for name, alert in side[part].items()} for side in (expected, found))
        missed = {name: missing_within(finding, without) for name, finding in (wanted | got).items()}
        for name in sorted(wanted.keys() & got.keys()):
            if not missed[name]:
                case.assertEqual(got[name], wanted[name], f"{where}: {part}")
            else:
                assert_as_firm(case, wanted[name], got[name], missed[name], f"{where}: {part}, {name}, decided without ranks {missed[name]}")
        # One that began at such an attempt may begin at a later one, under another id.
        only = [[name for name in side if name not in other] for side, other in ((wanted, got), (got, wanted))]
        for names, side, other in ((only[0], wanted, got), (only[1], got, wanted)):
            for name in names:
                case.assertTrue(missed[name], f"{where}: {part}: {name} is only in one")
                twins = [f for f in other.values() if all(f.get(k) == side[name].get(k) for k in ("rule", "subject", "segment"))]
                case.assertTrue(twins or side is wanted and set(wanted[name].get("ranks", ())) <= missed[name],
                                f"{where}: {part}: {name} has no counterpart")


def missing_within(finding, without):
    within = range(int(finding["first_attempt"]), int(finding["last_attempt"]) + 1)
    return set().union(*(ranks for attempt, ranks in without.items() if attempt in within))


def assert_as_firm(case, wanted, got, missed, where):
    case.assertEqual({k: got.get(k) for k in FIRM}, {k: wanted.get(k) for k in FIRM}, where)
    ranks, all_ranks = set(got.get("ranks", ())), set(wanted.get("ranks", ()))
    case.assertLessEqual(ranks, all_ranks, where)
    case.assertLessEqual(all_ranks - ranks, missed, where)


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
