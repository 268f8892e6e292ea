"""Names of runs, tensors and labels that mean something to whatever they pass through: they are names everywhere, and nothing else."""
import csv
import email
import email.header
import email.policy
import html.parser
import io
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import yaml
from guarded import SecurityCase
from harness import BIN, get, main, wait_for
from mailbox_stub import Mailbox
from reflection import Client, grpc
from session import Session

# To a spreadsheet, JSON and YAML, HTML, SQL, a shell, templates of Go and of ours, printf, Slack, a path, Prometheus, a terminal.
MEANINGS = ("|'/C calc'!A0,\"};<script>alert(1)</script>';DROP TABLE runs;--$(touch injected)`touch injected`${x}\\n{{.Labels}}{{title}}"
            "%s%n<!channel>../../etc: {a: b} #&amp;\u202e")
RUN, TENSOR, LABEL = ("=run" + MEANINGS, "=tensor" + MEANINGS, "=label" + MEANINGS)
HOOKS = ("plain", "body", "grouped")


def shown(name):
    """As it is shown to people: what turns the order of the text around it is told instead."""
    return name.replace("\u202e", "\\u202e")


class Page(html.parser.HTMLParser):
    """The elements of a page, and whether any runs something."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.handlers = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        self.handlers += [name for name, value in attributes
                          if name.startswith("on") or (value or "").strip().lower().startswith("javascript:")]


def series(page):
    """[(name, {label: value})] of a page for Prometheus, read as strictly as it reads it; AssertionError at what it would not take."""
    found = []
    label = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
    for line in page.split("\n"):
        if not line or line.startswith("#"):
            continue
        parts = re.fullmatch(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{((?:{label},?)*)\}})? \S+", line)
        assert parts, line
        pairs = {m.group(1): m.group(2).replace("\\\\", "\0").replace('\\"', '"').replace("\\n", "\n").replace("\0", "\\")
                 for m in re.finditer(label, parts.group(2) or "")}
        found.append((parts.group(1), pairs))
    return found


class Injection(SecurityCase):
    def setUp(self):
        super().setUp()
        self.hooks = {name: self.sink() for name in (*HOOKS, "alertmanager", "slack", "pagerduty")}
        self.mailbox = Mailbox()
        self.addCleanup(self.mailbox.close)
        program = self.folder / "page"
        program.write_text('#!/bin/sh\nn=$(ls "$(dirname "$0")" | grep -c paged)\nprintf "%s\\n" "$#" "$@" > "$(dirname "$0")/paged.arguments"\n'
                           'env > "$(dirname "$0")/paged.environment"\ncat > "$(dirname "$0")/paged.$n.json"\n')
        program.chmod(0o755)
        (self.folder / "key").write_text("R0UT1NG")
        sinks = [{"name": name, "type": kind, "url": self.hooks[name].url, "min_severity": "info"}
                 for name, kind in (("plain", "webhook"), ("body", "webhook"), ("grouped", "webhook"), ("slack", "slack"),
                                    ("alertmanager", "alertmanager"), ("pagerduty", "pagerduty"))]
        by_name = {sink["name"]: sink for sink in sinks}
        by_name["body"]["body"] = '\'{"text": "{{title}}", "run": "{{run}}", "tensor": "{{where.tensor}}", "labels": {{labels}}}\''
        by_name["grouped"]["group"] = "true"
        by_name["alertmanager"]["url"] = self.hooks["alertmanager"].url.removesuffix("/hook")
        by_name["pagerduty"]["key_file"] = self.folder / "key"
        sinks += [{"name": "mail", "type": "email", "url": self.mailbox.url, "from": "s@example.org", "to": "[a@example.org]", "tls": "false",
                   "min_severity": "info"},
                  {"name": "script", "type": "command", "command": f"[{program}, --urgent]", "min_severity": "info"}]
        self.scalewatchd = self.server(sinks=sinks, settings=[f"auth.audit_log={self.folder / 'audit.jsonl'}"])
        self.train_badly()
        self.path = urllib.parse.quote(RUN, safe="")

    def tearDown(self):
        left = [path for folder in (pathlib.Path("."), self.folder) for path in folder.rglob("injected")]
        self.assertEqual(left, [], "a shell ran what stands in a name")
        super().tearDown()

    def train_badly(self):
        """Skips that blame the tensor, in a run of that name with a label of that value."""
        client = Client(self.scalewatchd.address)
        self.addCleanup(client.close)
        session = self.session = Session(client)
        hello = session.hello(RUN)
        hello.hello.labels["team"] = LABEL
        hello.hello.host = LABEL
        session.send(hello)
        session.wait("HelloAck", lambda s: any(a.HasField("hello_ack") for a in s.answers))
        session.send(session.table([TENSOR]))
        for seq in range(1, 9):
            session.send(session.report(seq))
        for seq in range(9, 20):
            session.send(session.report(seq, skipped=True, nan=[(0, 3)]))
        self.assertTrue(session.wait("ack", lambda s: s.durable() == 19))

    def about_the_tensor(self, name, of):
        """The first request to a sink of which `of` is true."""
        def found():
            return next((body for body in self.hooks[name].bodies() if of(body)), None)
        return wait_for(f"a page to {name}", found)

    def test_json_and_sql(self):
        server = self.scalewatchd
        run = server.api(f"runs/{self.path}")
        self.assertEqual((run["run"]["name"], run["run"]["labels"]["team"]), (RUN, LABEL))
        self.assertEqual([each["name"] for each in server.api("runs")["runs"]], [RUN])
        tensors = server.api(f"runs/{self.path}/tensors")["tensors"]
        self.assertEqual([each["info"]["name"] for each in tensors], [TENSOR])
        for text, found in ((TENSOR, 1), ("'", 1), ("%", 1), ("nothing' OR '1'='1", 0), ("\\", 1)):
            asked = server.api(f"runs/{self.path}/tensors?name_contains={urllib.parse.quote(text)}")
            self.assertEqual(len(asked.get("tensors", [])), found, text)
        for view in ("tensors", "scaler", "heatmap", "top"):
            self.assertNotIn("error", server.api(f"table/runs/{self.path}/{view}"))
        alerts = server.api("alerts")["alerts"]
        self.assertTrue(any(alert["finding"].get("blame", {}).get("tensor") == TENSOR and alert["labels"]["team"] == LABEL
                            and alert["run"] == RUN for alert in alerts))
        with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as history:
            self.assertEqual(history.execute("SELECT name FROM runs").fetchall(), [(RUN,)])

    def test_prometheus(self):
        def page():
            found = series(get(self.scalewatchd.http + "/metrics"))
            return found if any("tensor" in labels for _, labels in found) else None

        found = wait_for("the tensor on /metrics", page)
        self.assertEqual({labels["run"] for _, labels in found if "run" in labels}, {RUN})
        self.assertEqual({labels["tensor"] for _, labels in found if "tensor" in labels}, {TENSOR})
        self.assertEqual({labels["label_team"] for _, labels in found if "label_team" in labels}, {LABEL})

    def test_tables_of_the_command_line(self):
        for line in (["runs"], ["show", RUN], ["tensors", RUN], ["scaler", RUN], ["doctor", "--run", RUN], ["history", RUN, TENSOR], ["top", RUN],
                     ["alerts"], ["attempt", RUN, "12"], ["heatmap", RUN], ["checklist", RUN], ["export", RUN, "--what", "findings"]):
            with self.subTest(line=line[0]):
                status, out, err = self.scalewatchd.cli(*line, check=False)
                self.assertIn(status, (0, 1, 2))  # what doctor and checklist found
                self.assertNotRegex(out + err, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
        for line in (["runs"], ["show", RUN], ["tensors", RUN], ["alerts"]):
            out = self.scalewatchd.cli("--json", *line)[1]
            self.assertEqual(json.loads(out), yaml.safe_load(out))  # JSON, and what YAML takes for the same
            self.assertNotIn("\u202e", out)

    def test_spreadsheets_and_html(self):
        for what in ("tensors", "attempts", "findings"):
            text = self.scalewatchd.cli("export", RUN, "--format", "csv", "--what", what)[1]
            rows = list(csv.reader(io.StringIO(text), strict=True))
            self.assertEqual({len(row) for row in rows}, {len(rows[0])})
            for cell in (cell for row in rows for cell in row):
                self.assertFalse(cell.startswith(("=", "+", "@", "\t", "\r")) or re.match(r"-[^0-9I]", cell), cell)
            lines = self.scalewatchd.cli("export", RUN, "--format", "jsonl", "--what", what)[1].splitlines()
            self.assertEqual(len([json.loads(line) for line in lines]), len(rows) - 1)
        self.assertIn("'=tensor", self.scalewatchd.cli("export", RUN, "--format", "csv")[1])
        page = self.scalewatchd.cli("report", RUN)[1]
        self.assertIn("alert(1)", page)
        self.assertNotIn("<script>alert", page)
        parsed = Page(page)
        self.assertEqual((parsed.handlers, parsed.elements & {"script", "iframe", "object", "embed", "form", "base"}), ([], set()))

    def test_shell_completion(self):
        script = self.folder / "completion"
        script.write_text(self.scalewatchd.cli("completion", "bash")[1])
        done = subprocess.run(["bash", "-c", f'cd {self.folder}; PATH={BIN}:$PATH; . {script}; COMP_WORDS=(scalewatch show ""); COMP_CWORD=2; '
                               '_scalewatch 2>&1; printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "SCALEWATCH_SERVER": self.scalewatchd.address})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("touch", done.stdout)

    def test_hooks(self):
        told = self.about_the_tensor("plain", lambda body: (body.get("where") or {}).get("tensor") == TENSOR)
        self.assertEqual((told["run"], told["labels"]["team"]), (RUN, LABEL))
        told = self.about_the_tensor("body", lambda body: body["tensor"] == TENSOR)
        self.assertEqual((told["run"], told["labels"]["team"]), (RUN, LABEL))
        self.assertIn("{{.L", told["text"])  # what stands in a name is not filled in
        [told] = self.about_the_tensor("alertmanager", lambda body: body[0]["labels"]["subject"] == TENSOR
                                       or shown(TENSOR) in body[0]["annotations"]["description"])
        self.assertEqual((told["labels"]["run"], told["labels"]["team"]), (RUN, LABEL))
        told = self.about_the_tensor("pagerduty", lambda body: body["payload"]["component"] == shown(TENSOR))
        self.assertEqual((told["payload"]["group"], told["payload"]["source"]), (shown(RUN), shown(RUN)))
        self.assertEqual(told["payload"]["custom_details"]["labels"]["team"], shown(LABEL))
        self.assertEqual(told["routing_key"], "R0UT1NG")
        text = json.dumps(self.about_the_tensor("slack", lambda body: "=run" in json.dumps(body)), ensure_ascii=False)
        self.assertNotIn("\u202e", text)
        self.assertNotIn("<!channel>", text)
        self.assertNotIn("<script>", text)
        self.assertIn("&lt;!channel&gt;", text)
        self.about_the_tensor("grouped", lambda body: body["run"] == RUN)

    def test_mail(self):
        text = wait_for("a mail", lambda: self.mailbox.mails)[0]
        mail = email.message_from_string(text.removesuffix("\r\n.\r\n"), policy=email.policy.default)
        self.assertEqual(sorted(mail.keys()), ["Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From", "MIME-Version",
                                               "Message-ID", "Subject", "To"])
        self.assertEqual((mail["From"], mail["To"]), ("s@example.org", "a@example.org"))
        self.assertIn("=run", mail["Subject"])
        self.assertEqual((mail.get_content_type(), mail.defects), ("text/plain", []))
        self.assertIn("team==label", mail.get_content())
        self.assertNotIn("\u202e", mail["Subject"] + mail.get_content())

    def test_command(self):
        def told():
            bodies = [json.loads(path.read_text()) for path in self.folder.glob("paged.*.json")]
            return next((body for body in bodies if body["run"] == RUN), None)

        body = wait_for("the command's input", told)
        self.assertEqual(body["labels"]["team"], LABEL)
        self.assertEqual((self.folder / "paged.arguments").read_text(), "1\n--urgent\n")
        environment = (self.folder / "paged.environment").read_text()
        for name in ("=run", "=tensor", "=label"):
            self.assertNotIn(name + "|", environment)

    def test_logs(self):
        self.session.cut()
        silence = {"matchers": [f"run={json.dumps(RUN)}"], "duration_ms": 60000, "who": "me" + MEANINGS.strip("\u202e"), "reason": "r" + MEANINGS}
        request = urllib.request.Request(self.scalewatchd.http + "/api/v1/silences", json.dumps(silence).encode(),
                                         {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except urllib.error.HTTPError as refused:
            refused.close()
        for line in wait_for("the audit log", lambda: (self.folder / "audit.jsonl").read_text()).splitlines():
            self.assertTrue(line.isascii())
            self.assertEqual(json.loads(line)["call"], "CreateSilence")
        log = wait_for("a line about the run", lambda: (text := self.scalewatchd.log_path.read_text()).count("alert(1)") and text)
        for line in log.splitlines():
            if "alert(1)" not in line:
                continue  # no name in it
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warning|error) ")
            self.assertNotRegex(line, "[\x00-\x1f\x7f-\x9f\u202e]")

    def test_names_that_could_end_a_line_are_refused(self):
        client = Client(self.scalewatchd.address)
        self.addCleanup(client.close)
        for odd in ("a\nb", "a\r\nBcc: x@example.org", "a\x1b[2Jb", "a\0b", "a\x9b31m", "\x7f", "", "x" * 600):
            for kind in ("run", "label", "tensor"):
                if kind == "label" and odd == "":
                    continue  # no value
                session = Session(client)
                hello = session.hello(odd if kind == "run" else f"other-{kind}")
                if kind == "label":
                    hello.hello.labels["team"] = odd
                session.send(hello)
                session.send(session.table([odd if kind == "tensor" else "w"]))
                code, details = session.ended()
                self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, (kind, odd))
                self.assertNotRegex(details, "[\x00-\x1f\x7f-\x9f]")
        for name in ("a-b", "a b", "1a", "a\"}", "a\nb", "é"):  # names of labels become Prometheus' own
            session = Session(client)
            hello = session.hello("other")
            hello.hello.labels[name] = "x"
            session.send(hello)
            self.assertEqual(session.ended()[0], grpc.StatusCode.INVALID_ARGUMENT, name)

    def test_paths(self):
        port = self.scalewatchd.http
        for odd in ("%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%2F..%2Fhistory.db", "%00", "%ff", "....//....//etc/passwd", "..;/", "%252e%252e%252f"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{port}/api/v1/runs/{odd}", timeout=10)
            self.assertIn(refused.exception.code, (400, 404), odd)
            refused.exception.close()
        for odd in ("/../../etc/passwd", "//etc/passwd", "/api/v1/../../history.db", "/.git/config", "/api/v1/table/../../../etc/passwd"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(port + odd, timeout=10)
            self.assertIn(refused.exception.code, (400, 404), odd)
            refused.exception.close()


if __name__ == "__main__":
    main()
