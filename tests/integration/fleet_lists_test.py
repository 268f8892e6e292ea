"""Lists of several servers: what one has lost, or can't tell now, comes from the shared history, or the list says that it may be missing."""
import json
import shutil
import signal
import time
import urllib.request

from fleets import FleetCase
from harness import get, main, wait_for


class FleetLists(FleetCase):
    def runs_of(self, servers, homes):
        """{run: its home}: short runs that have ended, each with the server that it belongs to."""
        runs = {}
        for home in homes:
            name = next(f"x{i}" for i in range(1000) if f"x{i}" not in runs and self.order(servers, f"x{i}")[0] == home)
            runs[name] = home
            self.demo_of(servers, name)
        return runs

    def demo_of(self, servers, run):
        self.assertEqual(self.spawn(self.job(servers, "hot", run, "--steps", "8", "--batch", "8")).wait(180), 0)
        wait_for("all of it", lambda: all(self.summary(s, run)["attempts"] == "8" for s in servers.values()))
        wait_for("all of it to be shared", lambda: all(self.shared(s) for s in servers.values()))

    @staticmethod
    def told(server):
        """None of a list that says that it is not whole: a server that has just started may not have read all by then."""
        with urllib.request.urlopen(server.http + "/api/v1/runs", timeout=10) as answer:
            runs = sorted(run["name"] for run in json.loads(answer.read())["runs"])
            return None if answer.headers["Scalewatch-Note"] else runs

    @staticmethod
    def paged(server):
        names, token = [], ""
        while True:
            page = server.api(f"runs?page_size=1&page_token={token}")
            names += [run["name"] for run in page["runs"]]
            token = page["next_page_token"]
            if not token:
                return sorted(names)

    @staticmethod
    def with_alerts(server):
        """Runs that have open ones."""
        _, out, note = server.cli("--json", "alerts")
        return None if note else {alert["run"] for alert in json.loads(out)["alerts"]}

    def lose_disk(self, servers, names):
        gone = {name: server.log_path.read_text().count("is gone") for name, server in servers.items()}
        for name in names:
            servers[name].kill()
            shutil.rmtree(servers[name].data)
        for name in set(servers) - set(names):
            wait_for("the others to miss it", lambda: servers[name].log_path.read_text().count("is gone") > gone[name])
        seen = {name: server.log_path.read_text().count("is there") for name, server in servers.items()}
        for name in names:
            servers[name].start()
        for name, server in servers.items():
            back = len(set(names) - {name})
            wait_for("the servers to see each other", lambda: server.log_path.read_text().count("is there") >= seen[name] + back)

    def all_tell(self, servers, runs, part):
        end = time.monotonic() + 6  # longer than anything of it is believed
        while time.monotonic() < end:
            for name, server in servers.items():
                told = part(server)
                self.assertEqual(set() if told is None else set(runs) - set(told), set(), name)
        for server in servers.values():
            wait_for("a whole list", lambda: part(server) is not None)

    def test_runs_of_a_lost_disk_are_told_by_all(self):
        servers = self.fleet("abc", self.click())
        runs = self.runs_of(servers, "abbc")
        self.lose_disk(servers, "b")
        self.all_tell(servers, runs, self.told)
        for server in servers.values():
            self.assertEqual(self.paged(server), sorted(runs))
        # Whoever is asked answers for them, by name and by uid.
        for run in runs:
            for server in servers.values():
                self.assertIn(run, server.cli("show", run)[1])
            self.assertEqual({self.summary(server, self.summary(server, run)["run_uid"])["name"] for server in servers.values()}, {run})
        for server in servers.values():
            code, _, err = server.cli("show", "no-such-run", check=False)
            self.assertEqual((code, 'unknown run "no-such-run"' in err), (3, True), err)
        self.lose_disk(servers, "abc")
        self.all_tell(servers, runs, self.told)
        for server in servers.values():
            self.assertEqual(self.paged(server), sorted(runs))

    def test_open_alerts_of_a_lost_disk_are_told_by_all(self):
        clickhouse = self.click()
        servers = self.fleet("abc", clickhouse)
        run = next(f"x{i}" for i in range(1000) if self.order(servers, f"x{i}")[0] == "b")
        job = self.spawn(self.job(servers, "hot", run, "--steps", "100000", "--batch", "8", "--step-ms", "20"))
        wait_for("alerts", lambda: self.with_alerts(servers["a"]))
        job.send_signal(signal.SIGSTOP)  # nobody brings the run back
        wait_for("them in ClickHouse", lambda: int(clickhouse.query("SELECT count() FROM alerts WHERE state = 2", "scalewatch")))
        self.lose_disk(servers, "b")
        self.missed = []
        # Until b takes the run over, which says anew what is open.
        wait_for("the takeover", lambda: self.told_until(servers["b"], "is taken over", servers, run))
        self.assertEqual(self.missed, [])

    def told_until(self, server, text, servers, run):
        told = [self.with_alerts(each) for each in servers.values()]
        if text in server.log():
            return True
        self.missed += [runs for runs in told if runs is not None and run not in runs]
        return False

    @staticmethod
    def shared(server):
        lag = "scalewatch_shared_history_lag_seconds "
        return all(line == lag + "0" for line in get(server.http + "/metrics").splitlines() if line.startswith(lag))

    def test_a_list_has_the_runs_of_a_server_that_died_just_now(self):
        servers = self.fleet("abc", self.click())
        runs = self.runs_of(servers, "bc")
        a = servers["a"]
        for name in "cb":
            servers[name].kill()
            for _ in range(20):
                self.assertEqual(self.told(a), sorted(runs))
        self.assertEqual(a.cli("runs")[2], "")

    def test_an_old_state_of_a_run_gives_way_to_what_is_shared(self):
        clickhouse = self.click()
        servers = self.fleet("abc", clickhouse)
        run = next(f"x{i}" for i in range(1000) if self.order(servers, f"x{i}") == ["a", "b", "c"])
        job = self.spawn(self.job(servers, "hot", run, "--steps", "40", "--batch", "2", "--step-ms", "100"))
        wait_for("attempts", lambda: int(self.summary(servers["c"], run)["attempts"]) >= 8)
        wait_for("some of it in ClickHouse", lambda: int(clickhouse.query("SELECT count() FROM reports", "scalewatch")))
        servers["a"].kill()
        self.assertEqual(job.wait(180), 0)
        whole = self.summary(servers["c"], run)
        self.assertEqual((whole["instance"], whole["attempts"]), ("b", "40"))
        wait_for("all of it to be shared", lambda: self.shared(servers["b"]))
        seen = servers["b"].log().count("is there")
        servers["a"].start()
        wait_for("them to see each other", lambda: servers["b"].log().count("is there") > seen)
        gone = servers["a"].log().count("is gone")
        servers["b"].stop()
        wait_for("a to miss it", lambda: servers["a"].log().count("is gone") > gone)

        def told(server):
            row, = server.api("runs")["runs"]
            return row["status"], row["attempts"]

        # By lists first: questions bring it.
        for part in (told, lambda server: (self.summary(server, run)["status"], self.summary(server, run)["attempts"]), told):
            for name in "cac":
                self.assertEqual(part(servers[name]), ("RUN_STATUS_FINISHED", "40"), name)
        for name in "ac":
            self.assertEqual(servers[name].api(f"runs/{run}/attempts/40")["attempt"]["attempt"], "40", name)
            self.assertEqual({alert["run"] for alert in json.loads(servers[name].cli("--json", "alerts", "--all", "--run", run)[1])["alerts"]}, {run})
        servers["a"].kill()
        servers["a"].start()
        self.assertEqual(told(servers["a"]), ("RUN_STATUS_FINISHED", "40"))

    def test_a_list_says_what_may_be_missing(self):
        servers = self.fleet("abc")
        runs = self.runs_of(servers, "abc")
        a = servers["a"]
        self.assertEqual(self.told(a), sorted(runs))
        servers["b"].kill()
        for _ in range(2):
            code, out, err = a.cli("runs")
            self.assertEqual((code, err), (0, "scalewatch: server b does not answer: its runs may be missing\n"), out)
            self.assertEqual(a.cli("alerts")[2], "scalewatch: server b does not answer: its alerts may be missing\n")
            wait_for("a to know", lambda: "server b at 127.0.0.1" in a.log() and "is gone" in a.log())
        servers["c"].kill()
        self.assertEqual(a.cli("runs")[2], "scalewatch: server b does not answer: its runs may be missing; "
                                           "server c does not answer: its runs may be missing\n")
        servers["b"].start()
        servers["c"].start()
        wait_for("a whole list", lambda: self.told(a) == sorted(runs))


if __name__ == "__main__":
    main()
