"""The scalewatch command against a real server that the demo has fed in each mode: what every view prints (golden), its JSON against
what --help says of it, terminals, paging, exports, the live view. SCALEWATCH_UPDATE_GOLDEN=1 writes tests/data/cli/demo anew."""
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

from harness import BIN, Case, ROOT, end_with_parent, main

os.environ["SCALEWATCH_CONFIG"] = os.devnull  # not that of whoever runs the test

STEPS = 60
MODES = ("healthy", "hot", "nan-data", "no-update")
GOLDEN = ROOT / "tests/data/cli/demo"
TENSOR = "block1.fc.weight"


def views(run):
    """Every view of a run that ends by itself, and what it is called."""
    return [["show", run], ["scaler", run], ["tensors", run], ["history", run, TENSOR, "--role", "grad", "--points", "5"],
            ["attempt", run, "30"], ["top", run], ["heatmap", run], ["checklist", run], ["compare", "healthy", run],
            ["whatif", run, "--set", "init_scale=1024"], ["whatif", run, "--bf16"], ["doctor", "--run", run]]


def lists():
    return [["runs"], ["alerts", "--all"], ["watch", "--count", "1"]]


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


def settled(text):
    """What differs from one run of the test to the next made equal: moments, this machine, the process. What the domain says of a run
    (findings and headlines) is left out: it has tests of its own."""
    text = re.sub(r"\d{4}-\d\d-\d\d(\s)\d\d:\d\d:\d\dZ", r"YYYY-MM-DD\1HH:MM:SSZ", text)  # it may be wrapped
    lines = []
    in_ranks = in_finding = in_headline = False
    for line in text.splitlines():
        if re.match(r"[A-Z]\w+: |Healthy|healthy:", line):
            in_headline = True
        elif re.match(r"\d+ attempts|$", line):
            in_headline = False
        if re.match(r"(critical|warning|info) [A-Z]\w+", line) or re.match(r"\w+ blames |\d+ more finding", line):
            in_finding = True
        elif not line.startswith("  "):
            in_finding = False
        if in_headline or in_finding:
            continue
        in_ranks = line.startswith("RANK ") or (in_ranks and line != "")
        if in_ranks:
            cells = line.split()
            line = " ".join(cells if cells[0] == "RANK" else [cells[0], "HOST", "PID", *cells[3:5], "SEEN", cells[-1]])
        if line or (lines and lines[-1]):
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def top_level_keys(shape):
    """The keys of the outermost {...} in what --help says of --json."""
    depth, keys, word = 0, [], ""
    for char in shape:
        if char in "{[":
            depth += 1
            word = word if depth > 1 else ""
        elif char in "}]":
            depth -= 1
            if depth == 0:
                break
        elif depth == 1 and char in ",:":
            if char == "," and word.strip():
                keys.append(word.strip())
            if char == ":":
                keys.append(word.strip())
                word = "\0"  # the rest is its value
                continue
            word = ""
            continue
        if depth == 1 and "\0" not in word and char not in "{}[]":
            word += char
    if word.strip() and "\0" not in word:
        keys.append(word.strip())
    return {key for key in keys if re.fullmatch(r"\w+", key)}


def message_fields(message):
    for path in (ROOT / "proto/scalewatch/v1").glob("*.proto"):
        found = re.search(rf"message {message} {{(.*?)\n}}", path.read_text(), re.S)
        if found:
            return set(re.findall(r"(\w+) = \d+;", found.group(1)))
    raise AssertionError(f"no message {message}")


class Cli(Case):
    @classmethod
    def setUpClass(cls):
        cls.holder = Case()
        cls.holder.setUp()
        cls.addClassCleanup(cls.holder.doCleanups)
        cls.scalewatchd = cls.holder.server()
        for mode in MODES:
            cls.holder.demo(cls.scalewatchd, mode, "--run", mode, "--steps", str(STEPS))

    def cli(self, *arguments, **options):
        return self.scalewatchd.cli(*arguments, **options)[1]

    def narrow(self, *arguments):
        shown = self.cli(*arguments, check=False)
        self.assertFalse([line for line in shown.splitlines() if len(line) > 80], shown)
        self.assertNotIn("\x1b", shown)
        self.assertTrue(shown.strip(), arguments)
        return shown

    def in_terminal(self, *arguments, rows=0, columns=80, env=None, error=False):
        """(exit status, what a terminal is sent on standard output, with `error` on standard error too); rows = 0: a terminal that
        knows no height, on which nothing is paged."""
        child, master = pty.fork()
        if child == 0:
            end_with_parent()
            os.environ.update({"TERM": "xterm-256color", **(env or {})})
            os.environ.pop("NO_COLOR", None)
            if not error:  # a slow machine shows a progress bar
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execv(str(BIN / "scalewatch"), ["scalewatch", "--server", self.scalewatchd.address, *arguments])
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        _, status = os.waitpid(child, 0)
        os.close(master)
        return os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n")

    def test_every_view_of_every_mode(self):
        for command in lists():
            self.narrow(*command)
        for mode in MODES:
            told = ""
            for command in views(mode):
                shown = self.narrow(*command, "--ascii", "--time", "utc")
                self.assertTrue(shown.isascii(), shown)
                if command[0] == "checklist":  # words of the domain from end to end
                    continue
                told += f"$ scalewatch {' '.join(command)}\n{settled(shown)}\n"
            golden = GOLDEN / f"{mode}.txt"
            if os.environ.get("SCALEWATCH_UPDATE_GOLDEN"):
                golden.parent.mkdir(exist_ok=True)
                golden.write_text(told)
            self.maxDiff = 4000
            self.assertEqual(told, golden.read_text(), "If the change is meant: SCALEWATCH_UPDATE_GOLDEN=1, and read the difference.")

    def test_json_is_what_help_says_in_every_view(self):
        report = [["report", "hot"], ["alerts", "--all"], ["runs"], ["whatif", "hot", "--best"]]
        for command in views("hot") + report:
            _, out, error = self.scalewatchd.cli("--json", *command, check=False)
            told = json.loads(out)
            self.assertEqual(error, "", command)
            help_text = self.cli(command[0], "--help")
            shape = re.sub(r"\s+", " ", help_text)
            shape = shape[shape.index("--bf16 --json: " if "--bf16" in command else " --json: ") :].split("--json: ", 1)[1]
            named = top_level_keys(shape) if shape.startswith("{") else message_fields(re.search(r"\w+(Response)", shape).group(0))
            if shape.startswith("{"):
                self.assertEqual(set(told), named, command)
            else:  # optional ones are there when they have a value
                self.assertLessEqual(set(told), named, command)
        for command in (["watch", "--count", "1"], ["export", "hot", "--what", "findings"]):
            lines = self.cli("--json", *command).splitlines()
            self.assertTrue(lines and all(isinstance(json.loads(line), dict) for line in lines), command)

    def test_a_terminal_shows_the_same_with_colours(self):
        coloured = 0
        for command in views("hot") + [["runs"]]:
            arguments = [*command, "--time", "utc"]
            plain = self.scalewatchd.cli(*arguments, check=False)
            status, shown = self.in_terminal(*arguments)
            self.assertEqual(status, plain[0], shown)
            bare = re.sub(r"\x1b\[[0-9;]*m", "", shown)
            self.assertNotIn("\x1b", bare)
            coloured += bare != shown
            if command[0] != "heatmap":  # that says with colours what it says with blocks elsewhere
                self.assertEqual(bare, plain[1])
            self.assertFalse([line for line in bare.splitlines() if len(line) > 80], bare)
        self.assertGreater(coloured, 8)

    def test_long_output_is_paged_and_short_output_is_not(self):
        def shown(*arguments, **env):
            return self.in_terminal(*arguments, rows=20, env=env, error=True)

        status, paged = shown("tensors", "hot", "--no-color", PAGER="cat -n")
        self.assertEqual(status, 0)
        self.assertRegex(paged, r"^ +1\tTENSOR")
        self.assertRegex(shown("runs", "--no-color", PAGER="cat -n")[1], r"^RUN")
        self.assertRegex(shown("tensors", "hot", "--no-color", "--no-pager", PAGER="cat -n")[1], r"^TENSOR")
        self.assertRegex(shown("tensors", "hot", "--no-color", PAGER="")[1], r"^TENSOR")
        # Who quits the pager has seen enough: no error.
        status, paged = shown("export", "hot", PAGER="head -n 2")
        self.assertEqual(status, 0, paged)
        self.assertIn("segment,attempt", paged)
        self.assertNotIn("scalewatch:", paged)
        # A pager that is not there must not take the answer with it.
        status, paged = shown("tensors", "hot", "--no-color", PAGER="no-such-pager")
        self.assertEqual(status, 0)
        self.assertRegex(paged, r"^TENSOR")

    def test_exports_and_reports_agree(self):
        run = self.scalewatchd.cli_json("show", "hot")
        # A tail of a run that is over ends by itself.
        self.assertIn("nothing more will come", self.cli("tail", "healthy"))

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

    def test_an_earlier_segment_is_told_of_as_it_was(self):
        for steps in (12, 20):
            self.holder.demo(self.scalewatchd, "healthy", "--run", "again", "--steps", str(steps))
        self.assertEqual(self.scalewatchd.cli_json("show", "again")["run"]["segment"], 2)
        first = self.scalewatchd.cli_json("show", "again", "--segment", "1")["run"]
        self.assertEqual((first["segment"], first["attempts"], first["applied"]), (1, "12", "12"))
        self.assertIn("12 attempts", self.narrow("show", "again", "--segment", "1"))
        self.assertIn("12 attempts", self.narrow("doctor", "--run", "again", "--segment", "1"))
        of = [self.scalewatchd.cli_json("tensors", "again", "--segment", str(s))["tensors"] for s in (1, 2)]
        self.assertEqual([t["info"]["name"] for t in of[0]], [t["info"]["name"] for t in of[1]])
        self.assertEqual({t["last_attempt"] for t in of[0]}, {"12"})
        self.assertEqual(self.scalewatchd.cli_json("whatif", "again", "--segment", "1")["attempts"], 12)
        self.assertEqual(len(self.scalewatchd.cli_json("scaler", "again", "--segment", "1")["points"]), 12)
        status, _, error = self.scalewatchd.cli("show", "again", "--segment", "9", check=False)
        self.assertEqual((status, error), (3, "scalewatch: again has no segment 9: its newest is 2\n"))

    def test_wrong_servers_and_names_are_told(self):
        for command in views("hto") + [["tail", "hto"], ["export", "hto"], ["report", "hto"]]:
            status, _, error = self.scalewatchd.cli(*command, check=False)
            self.assertEqual(status, 3, command)
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
