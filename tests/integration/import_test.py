"""`scalewatch import` against a real server: what the server finds is what `doctor` finds in the log."""
import json
import signal
import subprocess

from harness import BIN, ROOT, Case, findings, main, wait_for

LOGS = ROOT / "tests/data/logs"
# Skips, a floor that ends the run, NaN that is applied, ranks that differ, named tensors, and a healthy control.
NAMES = ["apex-318", "fairseq-515", "deepspeed-5779", "pytorch-136009", "transformers-10956", "megatron-deepspeed-396"]
LEVELS = {"info": 1, "warning": 2, "critical": 3}


def worst(findings):
    """The worst severity of each rule."""
    found = {}
    for finding in findings:
        rule, level = finding["rule"], LEVELS[finding["severity"].lower().removeprefix("severity_")]
        found[rule] = max(found.get(rule, 0), level)
    return found


class Import(Case):
    def setUp(self):
        super().setUp()
        self.scalewatchd = self.server()

    def doctor(self, path):
        done = subprocess.run([str(BIN / "scalewatch"), "--json", "doctor", str(path)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout)

    def findings(self, run):
        return findings(self.scalewatchd, run)

    def test_the_server_finds_what_doctor_finds(self):
        for name in NAMES:
            with self.subTest(log=name):
                told = self.scalewatchd.cli_json("import", str(LOGS / f"{name}.log"), "--run", name)
                wanted = self.doctor(LOGS / f"{name}.log")
                self.assertEqual(0, told["refused"])
                self.assertEqual(wanted["verdict"], told["verdict"])
                self.assertEqual(worst(wanted["findings"]), worst(self.findings(name)))
                run = self.scalewatchd.cli_json("show", name)["run"]
                self.assertEqual("log", run.get("framework", "log"))

    def test_a_log_of_the_past_pages_nobody_unless_asked(self):
        hook = self.sink()
        server = self.server(sinks=({"name": "hook", "type": "webhook", "url": hook.url},))
        path = str(LOGS / "apex-318.log")
        server.cli_json("import", path, "--run", "past")
        alerts = server.cli_json("alerts", "--all", "--run", "past")["alerts"]
        self.assertTrue(alerts)
        self.assertIn("recorded only", alerts[0]["trail"][0]["what"])
        self.assertEqual({"imported": "true"}, server.cli_json("show", "past")["run"]["labels"])
        server.cli_json("import", path, "--run", "asked", "--page")
        told = wait_for("the resolves", lambda: [body for _, _, body in list(hook.requests) if "resolved" in json.dumps(body)])
        self.assertTrue(told)
        self.assertNotIn("past", json.dumps([body for _, _, body in hook.requests]))

    def test_sent_again_it_is_a_new_segment(self):
        path = str(LOGS / "apex-318.log")
        first = self.scalewatchd.cli_json("import", path, "--run", "twice")
        again = self.scalewatchd.cli_json("import", path, "--run", "twice")
        self.assertEqual(first["run_uid"], again["run_uid"])
        self.assertEqual(first["segment"] + 1, again["segment"])

    def test_followed_over_a_restart_of_the_server(self):
        path = self.folder / "train.log"
        text = (LOGS / "apex-318.log").read_text()
        lines = text.splitlines(keepends=True)
        path.write_text("".join(lines[:len(lines) // 2]))
        sending = self.spawn([str(BIN / "scalewatch"), "--server", self.scalewatchd.address, "import", str(path), "--run",
                              "live", "--follow"])
        wait_for("the first half", lambda: self.scalewatchd.cli_json("show", "live")["run"]["attempts"])
        self.scalewatchd.kill()
        self.scalewatchd.start()
        with open(path, "a") as log:
            log.write("".join(lines[len(lines) // 2:]))
        wanted = worst(self.doctor(path)["findings"])
        wait_for("the second half", lambda: worst(self.findings("live")).keys() >= wanted.keys() - {"EndedWithoutGoodbye"})
        sending.send_signal(signal.SIGINT)
        self.assertEqual(0, sending.wait(60))
        self.assertEqual(wanted, worst(self.findings("live")))

    def test_a_file_that_is_no_log_makes_no_run(self):
        path = self.folder / "notes.txt"
        path.write_text("buy milk\n" * 50)
        code, _, said = self.scalewatchd.cli("import", str(path), "--run", "nothing", check=False)
        self.assertEqual(3, code)
        self.assertIn("nothing in", said)
        self.assertEqual([], self.scalewatchd.cli_json("runs").get("runs", []))


if __name__ == "__main__":
    main()
