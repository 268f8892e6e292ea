"""Names that mean something to SQL pass through ClickHouse as names: every question that is answered there, of a run, a tensor and a
label of such names."""
import urllib.error
import urllib.parse

from clickhouse import clickhouse
from clickhouse_test import is_thinned, metric
from fleets import FleetCase
from harness import main, need, wait_for
from injection_test import LABEL, RUN, TENSOR
from reflection import Client
from session import Session

need("clickhouse-server")
ATTEMPTS = 420
OTHER = "another'"
HOSTILE = (RUN, "' OR 1=1 --", "\\' OR 1=1 --", "\\", "a'); DROP TABLE runs; --", "%", "\\0", "{table:runs}")


def asked(server, path):
    """What the server answers, or why not."""
    try:
        return server.api(path)
    except urllib.error.HTTPError as error:
        return error.code


def path_of(run):
    return f"runs/{urllib.parse.quote(run, safe='')}"


class InClickHouse(FleetCase):
    def train(self, server, run, tensors=(TENSOR, OTHER), attempts=ATTEMPTS):
        client = Client(server.address)
        self.addCleanup(client.close)
        session = Session(client)
        hello = session.hello(run)
        hello.hello.labels["team"] = LABEL
        session.send(hello)
        session.wait("HelloAck", lambda s: any(a.HasField("hello_ack") for a in s.answers))
        session.send(session.table(list(tensors)))
        for seq in range(1, attempts + 1):
            bad = seq % 50 == 0
            session.send(session.report(seq, ids=range(len(tensors)), skipped=bad, max=[float(seq)] * len(tensors),
                                        nan=[(0, 3)] if bad else []))
        self.assertTrue(session.wait("ack", lambda s: s.durable() == attempts))
        return session

    def all_there(self, server):
        wait_for("all of it in ClickHouse", lambda: metric(server, "scalewatch_shared_history_lag_seconds") == 0
                 and metric(server, "scalewatch_shared_history_reachable") == 1, 60)

    def questions(self, run):
        path, tensor = path_of(run), urllib.parse.quote(TENSOR, safe="")
        part = "first=1&last=200"
        return {"history": f"{path}/tensors/{tensor}/history?{part}", "attempt": f"{path}/attempts/50",
                "scaler": f"{path}/scaler?{part}",
                **{f"top by {by}": f"{path}/top?{part}&by={by}" for by in ("BY_HEADROOM", "BY_ABSMAX", "BY_NORM", "BY_NON_FINITE")},
                **{f"heat map of {what}": f"{path}/heatmap?{part}&{what}" for what in
                   ("by=BY_HEADROOM", "by=BY_NON_FINITE", "tensor_contains=" + urllib.parse.quote(TENSOR), "tensor_contains=%27")}}

    def test_old_attempts_are_answered_there(self):
        whole = self.server()
        with clickhouse(self.folder / "one") as there:
            server = self.server(settings=[f"history.clickhouse.hosts={there.url}", "history.clickhouse.every=200ms",
                                           "history.keep_attempts=100", "history.retention_every=1s"])
            for each in (whole, server):
                self.train(each, RUN)
            self.all_there(server)
            wait_for("old statistics to go", lambda: is_thinned(server))
            tables = there.query("SHOW TABLES", "scalewatch")
            for what, path in self.questions(RUN).items():
                with self.subTest(what):
                    told, expected = asked(server, path), asked(whole, path)
                    for each in (told, expected):
                        each.get("attempt", {}).pop("time_ms", None)  # when it came in
                    self.assertEqual(told, expected)
            self.assertEqual(there.query("SHOW TABLES", "scalewatch"), tables)
            self.assertEqual(there.query("SELECT DISTINCT name FROM runs FORMAT JSONCompact", "scalewatch").count("=run"), 1)
            names = there.query("SELECT DISTINCT name FROM tensors ORDER BY name FORMAT TabSeparatedRaw", "scalewatch")
            self.assertEqual(names, f"{TENSOR}\n{OTHER}\n")
            there.kill()
            # So it was there that they were answered.
            self.assertEqual(asked(server, self.questions(RUN)["top by BY_HEADROOM"]), 503)

    def test_runs_of_a_server_that_is_gone_are_found_there(self):
        there = self.click()
        servers = self.fleet("ab", there)
        for number, run in enumerate(HOSTILE):
            home = servers[self.order(servers, run)[0]]
            session = self.train(home, run, tensors=(f"{TENSOR}{number}",), attempts=20)
            session.send(session.goodbye(20))
            wait_for("the goodbye", lambda: self.summary(home, urllib.parse.quote(run, safe=""))["status"] == "RUN_STATUS_FINISHED")
        for server in servers.values():
            self.all_there(server)
        servers["a"].kill()
        left = servers["b"]
        wait_for("all runs", lambda: sorted(each["name"] for each in left.api("runs")["runs"]) == sorted(HOSTILE), 60)
        for number, run in enumerate(HOSTILE):
            with self.subTest(run):
                told = wait_for("the run", lambda: answer if isinstance(answer := asked(left, path_of(run)), dict) else None, 60)
                self.assertEqual((told["run"]["name"], told["run"]["labels"]["team"]), (run, LABEL))
                tensors = asked(left, path_of(run) + "/tensors")["tensors"]
                self.assertEqual([each["info"]["name"] for each in tensors], [f"{TENSOR}{number}"])
                self.assertEqual(len(asked(left, path_of(run) + "/attempts/7")["tensors"]), 1)
                self.assertEqual(asked(left, path_of(run + "'")), 404)
        self.assertEqual(left.stop(), 0)


if __name__ == "__main__":
    main()
