"""The configuration is read again on SIGHUP and by RPC: what may change does at once, what is wrong changes nothing, and a restart
after it finds what the server found that went through it."""
import re
import signal

from harness import Case, findings, main, wait_for

RULE = "DominantGradient"  # with these limits any run has it
FIRES = "{dominant_gradient_share: 0, dominant_gradient_samples: 1}"
OFF = "{dominant_gradient_share: 0, dominant_gradient_samples: 1, off: " + RULE + "}"


class Reload(Case):
    def write(self, server, rules=None, sinks=(), more=""):
        text = f"rules: {rules}\n" if rules else ""
        if sinks:
            listed = ", ".join(f"{{name: {name}, type: webhook, url: '{url}', min_severity: info}}" for name, url in sinks)
            text += f"alerting:\n  sinks: [{listed}]\n"
        server.config.write_text(text + more)

    def lines(self, server, words):
        return [line for line in server.log_path.read_text().splitlines() if words in line]

    def hangup(self, server):
        """SIGHUP; returns its line in the log."""
        before = len(self.lines(server, "by=SIGHUP"))
        server.process.send_signal(signal.SIGHUP)
        return wait_for("the reload's line", lambda: self.lines(server, "by=SIGHUP")[before:])[0]

    def only(self, server, run):
        found = findings(server, run, RULE)
        self.assertLessEqual(len(found), 1, found)
        return found[0] if found else None

    def test_rules_and_sinks_change_under_a_run_and_a_restart_finds_the_same(self):
        server = self.server(start=False)
        self.write(server)
        server.start()
        trainer = self.spawn(self.demo_command(server, "healthy", "--run", "live", "--steps", "1000000", "--ranks", "2"))
        wait_for("some attempts", lambda: int(server.api("runs/live")["run"]["attempts"]) > 10)
        self.assertIsNone(self.only(server, "live"))

        first, second = self.sink(), self.sink()
        self.write(server, FIRES, [("first", first.url)])
        line = self.hangup(server)
        self.assertIn("configuration reloaded", line)
        self.assertIn("rules.dominant_gradient_share: 0.6 -> 0", line)
        self.assertIn("with first", line)
        opened = wait_for("the finding", lambda: self.only(server, "live"))
        wait_for("its page", lambda: first.bodies())

        # A sink that comes later is told of what is open.
        self.write(server, FIRES, [("first", first.url), ("second", second.url)])
        self.hangup(server)
        wait_for("the new sink's page", lambda: second.bodies())

        self.write(server, OFF, [("second", second.url)], "engine: {threads: 3}\n")
        answer = server.cli_json("admin", "reload", "--who", "on-call")
        self.assertIn(f'rules.off: "" -> {RULE}', answer["applied"])
        self.assertIn("alerting.sinks: without first", answer["applied"])
        self.assertEqual(answer["need_restart"], ["engine.threads: 2 -> 3"])
        self.assertEqual(len(self.lines(server, "by=on-call")), 1)
        resolved = wait_for("the end of what is off", lambda: (f := self.only(server, "live")) and not f.get("open") and f)
        self.assertEqual(resolved["id"], opened["id"])
        alert = [a for a in server.cli_json("alerts", "--all", "--run", "live")["alerts"] if a["finding"]["rule"] == RULE][0]
        self.assertIn("switched off", alert["trail"][-1]["what"])
        wait_for("the resolve", lambda: len(second.bodies()) > 1)

        def paged():  # of this rule: a restart may cost full statistics, which is told as well
            return [{key for key in sink.keys() if RULE in key} for sink in (first, second)]

        told = paged()

        def attempts():
            return int(server.api("runs/live")["run"]["attempts"])

        until = attempts() + 20
        wait_for("more attempts", lambda: attempts() > until)
        server.kill()
        server.start()
        until = attempts() + 20
        wait_for("the trainer's return", lambda: attempts() > until)
        again = self.only(server, "live")
        self.assertEqual((again["id"], again.get("open")), (resolved["id"], resolved.get("open")))
        self.assertEqual(paged(), told)
        trainer.terminate()
        self.assertEqual(server.stop(), 0)

    def test_a_wrong_file_changes_nothing(self):
        server = self.server(start=False)
        self.write(server, FIRES)
        server.start()
        for bad, words in (("rules:\n  low_headroom_octaves: much\n", ":2: rules.low_headroom_octaves"),
                           ("rules: {off: NoSuchRule}\n", "rules.off"),
                           ("listen: {grpc: 0.0.0.0:1}\nrules: [\n", "not YAML"),
                           ("alerting: {sinks: [{name: a, type: pigeon, url: 'http://x/'}]}\n", "pigeon")):
            server.config.write_text(bad)
            line = self.hangup(server)
            self.assertIn("all stays as it was", line)
            self.assertIn(words, line)
            status, out, err = server.cli("admin", "reload", check=False)
            self.assertEqual((status, out), (1, ""))
            self.assertIn(str(server.config), err)
            self.assertIn(words, err)
        self.demo(server, "healthy", "--run", "as-before", "--steps", "60")
        self.assertTrue(self.only(server, "as-before"))
        self.write(server, FIRES)
        self.assertRegex(server.cli("admin", "reload")[1], re.compile("nothing differs"))

    def test_without_a_file_there_is_nothing_to_read(self):
        server = self.server(start=False)
        command = server.command

        def without_file(*extra):
            whole = command(*extra)
            at = whole.index("--config")
            return whole[:at] + whole[at + 2:]

        server.command = without_file
        server.start()
        self.assertIn("--config", self.hangup(server))
        status, _, err = server.cli("admin", "reload", check=False)
        self.assertEqual(status, 3)
        self.assertIn("--config", err)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    main()
