"""The scalewatch command against a real server that the demo has fed: every view, exports, the live view in a terminal."""
import csv
import fcntl
import html.parser
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from harness import BIN, Case, end_with_parent, main

STEPS = 60


class Page(html.parser.HTMLParser):
    """Tags that are opened and closed in order, and what they ask for."""

    VOID = {"meta", "br", "hr", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.asked, self.wrong = [], [], []

    def handle_starttag(self, tag, attributes):
        self.asked += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


class Cli(Case):
    def setUp(self):
        super().setUp()
        self.scalewatchd = self.server()
        self.demo(self.scalewatchd, "hot", "--run", "hot", "--steps", str(STEPS))
        self.demo(self.scalewatchd, "healthy", "--run", "fine", "--steps", str(STEPS))

    def cli(self, *arguments, **options):
        return self.scalewatchd.cli(*arguments, **options)[1]

    def narrow(self, *arguments, check=True):
        shown = self.cli(*arguments, check=check)
        self.assertFalse([line for line in shown.splitlines() if len(line) > 80], shown)
        self.assertNotIn("\x1b", shown)
        return shown

    def test_views_exports_and_reports(self):
        run = self.scalewatchd.cli_json("show", "hot")
        self.assertIn("optimizers", run)
        for command in (["runs"], ["show", "hot"], ["scaler", "hot"], ["tensors", "hot"], ["attempt", "hot"],
                        ["top", "hot", "--by", "nan"], ["heatmap", "hot", "--ascii"], ["compare", "fine", "hot"],
                        ["alerts", "--all"], ["watch", "--count", "1"]):
            self.assertTrue(self.narrow(*command).strip(), command)

        # A tail of a run that is over ends by itself.
        self.assertIn("nothing more will come", self.cli("tail", "fine"))

        # One attempt: where values went bad first is where the rules say.
        blamed = [f["blame"] for f in run["findings"] if f.get("blame", {}).get("tensor")]
        self.assertTrue(blamed)
        shown = self.cli("--width", "0", "attempt", "hot", blamed[0]["attempt"])
        self.assertIn(blamed[0]["tensor"], shown)
        self.assertIn("First non-finite", shown)

        # Every stored record, once; what JSON Lines says is what CSV says.
        rows = list(csv.DictReader(io.StringIO(self.cli("export", "hot"))))
        tensors = len(self.scalewatchd.cli_json("tensors", "hot")["tensors"])
        self.assertEqual(len({(row["attempt"], row["tensor"], row["role"]) for row in rows}), len(rows))
        self.assertEqual({int(row["attempt"]) for row in rows}, set(range(1, STEPS + 1)))
        self.assertEqual(len(rows), STEPS * tensors)
        lines = [json.loads(line) for line in self.cli("export", "hot", "--format", "jsonl").splitlines()]
        self.assertEqual([str(line["nan"]) for line in lines], [row["nan"] for row in rows])
        attempts = list(csv.DictReader(io.StringIO(self.cli("export", "hot", "--what", "attempts"))))
        skipped = sum(row["outcome"] == "skipped" for row in attempts)
        self.assertEqual(skipped, int(run["run"]["skipped"]))

        # The heat map shows every tensor with NaN or Inf that the export has.
        bad = {(row["tensor"], row["role"]) for row in rows if int(row["nan"]) + int(row["pos_inf"]) + int(row["neg_inf"])}
        told = self.scalewatchd.cli_json("heatmap", "hot")
        marked = {(t["name"], t["role"]) for t in told["tensors"] if {"nan", "inf"} & set(t["marks"])}
        self.assertEqual(marked, bad)

        page = Page()
        page.feed(self.cli("report", "hot"))
        self.assertEqual((page.open, page.wrong, page.asked), ([], [], []))

        # A run over a change of scale: one kind of value in every row.
        name = next(row["tensor"] for row in rows if row["role"] == "gradient")
        history = self.scalewatchd.cli_json("history", "hot", name, "--role", "gradient", "--points", "3")["points"]
        for point in history:
            if point["scale_low"] != point["scale_high"]:
                self.assertEqual(point["record"]["measured_under_scale"], 1)
        self.assertIn("* the scale changed", self.narrow("history", "hot", name, "--role", "gradient", "--points", "3"))

        status, text, _ = self.scalewatchd.cli("checklist", "hot", check=False)
        self.assertEqual(status, 1, text)
        self.assertRegex(text, r"^\d+ violated, \d+ hold, \d+ not observable")

    def test_wrong_servers_and_names_are_told(self):
        status, _, error = self.scalewatchd.cli("show", "hto", check=False)
        self.assertEqual(status, 3)
        self.assertIn('"hot"', error)
        done = subprocess.run([str(BIN / "scalewatch"), "--server", f"127.0.0.1:{self.scalewatchd.http_port}", "runs"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 3)
        self.assertIn("HTTP/1 server", done.stderr)

    def test_live_view_in_a_terminal(self):
        child, master = pty.fork()
        if child == 0:
            end_with_parent()
            os.environ.update(TERM="xterm-256color")
            os.environ.pop("NO_COLOR", None)
            os.execv(str(BIN / "scalewatch"), ["scalewatch", "--server", self.scalewatchd.address, "watch", "--interval", "0.3"])
        shown = b""

        def read_until(pattern, seconds=60):
            nonlocal shown
            end = time.monotonic() + seconds
            while not re.search(pattern, shown):
                self.assertLess(time.monotonic(), end, shown[-2000:])
                if select.select([master], [], [], 0.2)[0]:
                    try:
                        shown += os.read(master, 65536)
                    except OSError:  # the other end is closed
                        break
            self.assertRegex(shown, pattern)

        read_until(rb"\x1b\[\?1049h")
        read_until(rb"hot")
        shown = b""
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 60, 0, 0))
        read_until(rb"\x1b\[H")
        os.kill(child, signal.SIGINT)
        read_until(rb"\x1b\[\?25h\x1b\[\?1049l")
        _, status = os.waitpid(child, 0)
        os.close(master)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)


if __name__ == "__main__":
    main()
