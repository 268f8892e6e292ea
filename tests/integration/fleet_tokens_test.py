"""Servers that share their runs and ask for tokens: a question is passed on with the asked server's own token, and what the caller may see
is decided by the server that was asked."""
import json
import subprocess
import urllib.parse

from fleets import FleetCase
from guarded import SecurityCase
from harness import main, wait_for


class FleetTokens(SecurityCase, FleetCase):
    def run_of(self, servers, home, team):
        return next(name for name in (f"{team}/{i}" for i in range(1000)) if self.order(servers, name)[0] == home)

    def asked(self, server, run, token):
        status, body = self.ask(server, "/api/v1/runs/" + urllib.parse.quote(run, safe=""), token)
        return status, json.loads(body)["run"]["instance"] if status == 200 else body

    def test_questions_are_passed_on(self):
        between, _ = self.token("read", "operate")
        sender, _ = self.token("ingest")
        team, _ = self.token("read:team-a/*")
        operator, _ = self.token("read", "operate")
        servers = self.fleet("ab", settings=[f"auth.tokens_file={self.tokens}", f"fleet.token_file={between}"])
        a, b = servers.values()
        runs = {name: self.run_of(servers, name, f"team-{name}") for name in servers}
        for run in runs.values():  # whoever the trainer reaches first
            for first in (a, b):
                self.train(first, run, {"SCALEWATCH_TOKEN_FILE": sender}, self.addresses({"first": first, **servers}))
        for server in servers.values():
            for home, run in runs.items():
                wait_for("the run", lambda: self.asked(server, run, operator) == (200, home))
            self.assertEqual(self.asked(server, runs["a"], team), (200, "a"))
            self.assertEqual(self.asked(server, runs["b"], team)[0], 403)
            status, body = self.ask(server, "/api/v1/runs", team)
            self.assertEqual((status, [run["name"] for run in json.loads(body)["runs"]]), (200, [runs["a"]]))
            self.assertEqual(self.ask(server, "/api/v1/runs/" + urllib.parse.quote(runs["a"], safe=""))[0], 401)
            self.assertEqual(self.command(server, operator, "tensors", runs["a"])[0], 0)
        # What is done on one is done on both, and only by who may.
        silence = ("alerts", "silence", "run=" + runs["b"], "--for", "1h", "--reason", "a rack is moved")
        self.assertNotEqual(self.command(a, team, *silence)[0], 0)
        self.assertEqual(self.command(a, operator, *silence)[0], 0)
        for server in servers.values():
            self.assertEqual(len(json.loads(self.ask(server, "/api/v1/silences", operator)[1])["silences"]), 1)
        for server in servers.values():
            self.assertEqual(server.stop(), 0)

    def test_without_a_token_of_its_own_a_server_does_not_start(self):
        self.token("read")
        server = self.server(start=False, settings=[f"auth.tokens_file={self.tokens}", "fleet.self=a", "fleet.instances=a=x:1,b=x:2"])
        for more in ([], ["--check"]):
            done = subprocess.run(server.command(*more), capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("fleet.token_file: is empty, and auth.tokens_file is set", done.stdout + done.stderr)

    def test_a_server_whose_token_is_refused_says_so(self):
        sender, _ = self.token("ingest")
        reader, _ = self.token("read")
        servers = self.fleet("ab", settings=[f"auth.tokens_file={self.tokens}", f"fleet.token_file={sender}"])
        a, b = servers.values()
        run = self.run_of(servers, "a", "team")
        self.train(a, run, {"SCALEWATCH_TOKEN_FILE": sender}, self.addresses(servers))
        wait_for("the run", lambda: self.asked(a, run, reader) == (200, "a"))
        fault = "server a refuses this server's fleet.token_file"
        status, body = self.asked(b, run, reader)
        self.assertEqual((status, fault in body), (409, True), body)
        code, out = self.command(b, reader, "runs")
        self.assertEqual((code, fault + ": its runs may be missing" in out), (0, True), out)
        code, out = self.command(b, reader, "show", run)
        self.assertEqual((code, fault in out), (3, True), out)
        self.assertEqual(b.log_path.read_text().count(f"fleet: {fault}"), 1)


if __name__ == "__main__":
    main()
