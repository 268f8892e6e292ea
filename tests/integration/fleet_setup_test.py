"""Servers of a fleet that are set up wrongly, or whose ClickHouse is away, say so: in the log, to who asks, and in their metrics."""
import json

from fleets import FleetCase
from harness import get, main, wait_for


class FleetSetup(FleetCase):
    def servers_of(self, lists, own=()):
        """{name: Server}, not started. lists: {name: (fleet.self, the servers that it lists)}."""
        servers = {name: self.server(start=False) for name in lists}
        for name, (self_name, listed) in lists.items():
            addresses = {other: server.address for other, server in servers.items()}
            text = ",".join(f"{other}={addresses.get(other, '127.0.0.1:9')}" for other in listed)
            servers[name].settings = (f"fleet.instances={text}", f"fleet.self={self_name}", "fleet.probe_every=200ms",
                                      "fleet.down_after=800ms", *own)
        return servers

    @staticmethod
    def said(server, text):
        return server.log_path.read_text().count(text)

    @staticmethod
    def metric(server, name):
        return next(float(line.split()[-1]) for line in get(server.http + "/metrics").splitlines() if line.startswith(name + " "))

    def test_two_servers_of_one_name(self):
        servers = self.servers_of({"a": ("a", "ab"), "b": ("a", "ab")})
        for server in servers.values():
            server.start()
        for server in servers.values():
            wait_for("the fault", lambda: self.said(server, f"{servers['b'].address} should be server b and says that it is a"))
            self.assertEqual(self.said(server, "is there"), 0)
        # Both go on alone: what is asked ends, and says what is wrong.
        code, _, err = servers["a"].cli("runs")
        self.assertEqual((code, err), (0, f"scalewatch: what answers at {servers['b'].address} is not server b (see its fleet.self): "
                                          "its runs may be missing\n"))
        self.assertEqual(self.spawn(self.job(servers, "hot", "one", "--steps", "8", "--batch", "8")).wait(120), 0)
        servers["b"].stop()
        servers["b"].settings = [s.replace("fleet.self=a", "fleet.self=b") for s in servers["b"].settings]
        servers["b"].start()
        wait_for("b to be there", lambda: self.said(servers["a"], f"server b at {servers['b'].address} is there"))
        self.assertEqual(servers["a"].cli("runs")[2], "")
        self.assertEqual(self.said(servers["a"], "should be server b"), 1)

    def test_two_servers_of_one_name_do_not_both_keep_a_run(self):
        clickhouse = self.click()
        servers = self.servers_of({"a": ("a", "ab"), "b": ("a", "ab")}, (
            "history.clickhouse.hosts=" + clickhouse.url, "history.clickhouse.required=true", "history.clickhouse.every=100ms"))
        for server in servers.values():
            server.start()
        # Neither knows of the other, and a job reaches first the one, then, begun anew, the other.
        steps = ("--batch", "8", "--step-ms", "20", "--steps")
        self.spawn(self.job({"a": servers["a"]}, "healthy", "both", *steps, "100000"))
        wait_for("some of it", lambda: int(clickhouse.query("SELECT uniqExact(attempt) FROM reports", "scalewatch")) > 10)
        self.spawn(self.job({"b": servers["b"]}, "healthy", "both", *steps, "100000"))
        wait_for("the older claim to yield", lambda: self.said(servers["a"], "is with a server that calls itself a, as this one does"))
        self.assertEqual(self.metric(servers["a"], "scalewatch_fleet_runs_yielded_total"), 1)
        seen = int(self.summary(servers["b"], "both")["attempts"])
        wait_for("the run to go on", lambda: int(self.summary(servers["b"], "both")["attempts"]) > seen + 20)
        self.assertEqual(self.metric(servers["b"], "scalewatch_fleet_runs_yielded_total"), 0)

    def test_a_server_that_never_answered_and_lists_that_differ(self):
        servers = self.servers_of({"a": ("a", "abc"), "b": ("b", "ab"), "c": ("c", "abc")})
        a, b, c = servers.values()
        a.start()
        b.start()
        wait_for("the lists", lambda: self.said(a, "server b has a list of other servers"))
        wait_for("the lists", lambda: self.said(b, "server a has a list of other servers"))
        wait_for("the silence", lambda: self.said(a, f"server c at {c.address} has never answered"))
        self.assertEqual(self.said(b, "has never answered"), 0)
        c.start()
        wait_for("c", lambda: self.said(a, f"server c at {c.address} is there"))
        self.assertEqual([self.said(a, text) for text in ("server b has a list", "has never answered")], [1, 1])

    def test_a_clickhouse_that_is_away_is_in_the_metrics(self):
        clickhouse = self.click()
        clickhouse.kill()
        servers = self.fleet("ab", clickhouse, required=False)
        lag, reachable = "scalewatch_shared_history_lag_seconds", "scalewatch_shared_history_reachable"
        self.assertEqual(self.spawn(self.job(servers, "hot", "x", "--steps", "20", "--batch", "8")).wait(120), 0)
        owner = servers[self.owner(servers, "x")]
        first = wait_for("a lag", lambda: self.metric(owner, lag))
        wait_for("more of it", lambda: self.metric(owner, lag) > first)
        for server in servers.values():
            wait_for("it to be missed", lambda: self.metric(server, reachable) == 0)
        clickhouse.start()
        wait_for("all of it there", lambda: self.metric(owner, lag) == 0, 90)
        self.assertEqual(int(clickhouse.query("SELECT count() FROM (SELECT DISTINCT stream, seq FROM reports)", "scalewatch")), 20)
        for server in servers.values():
            wait_for("it to be seen", lambda: self.metric(server, reachable) == 1, 90)
        # With nothing to send, too: the next run could not be taken.
        clickhouse.kill()
        for server in servers.values():
            wait_for("it to be missed", lambda: self.metric(server, reachable) == 0)
            self.assertEqual(self.metric(server, lag), 0)

    def test_a_run_that_was_brought_for_questions_does_not_lag(self):
        servers = self.fleet("ab", self.click())
        run = self.order_first(servers, "b")
        self.assertEqual(self.spawn(self.job(servers, "hot", run, "--steps", "20", "--batch", "8")).wait(120), 0)
        servers["b"].kill()
        wait_for("the copy", lambda: json.loads(servers["a"].cli("--json", "show", run)[1]))
        self.assertEqual(self.metric(servers["a"], "scalewatch_shared_history_lag_seconds"), 0)

    def order_first(self, servers, home):
        return next(f"x{i}" for i in range(1000) if self.order(servers, f"x{i}")[0] == home)


if __name__ == "__main__":
    main()
