"""deploy/prometheus, as far as it can be judged without a server: the files are sound, every alert is told as an on-call needs it, has a
runbook, and fires where it must and nowhere else (promtool's own tests)."""
import re
import subprocess
import unittest

from harness import ROOT, main, need

PROMTOOL = need("promtool")
FOLDER = ROOT / "deploy/prometheus"
RULES = sorted(FOLDER.glob("*.rules.yml"))
TESTS = sorted((FOLDER / "tests").glob("*.yml"))


def promtool(*arguments):
    done = subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def alerts():
    """Every alert's lines, by name and severity."""
    found = {}
    for path in RULES:
        for block in re.split(r"\n      - ", path.read_text()):
            if name := re.match(r"alert: (\w+)\n", block):
                severity = re.search(r"severity: (\w+)", block)
                found[name[1], severity[1] if severity else ""] = block
    return found


def metrics():
    return set(re.findall(r"^\| `(\w+)` \|", (ROOT / "deploy/METRICS.md").read_text(), re.M))


class Rules(unittest.TestCase):
    def test_the_files_are_sound(self):
        for arguments in (("check", "config", FOLDER / "prometheus.yml"), ("check", "rules", *RULES)):
            status, said = promtool(*arguments)
            self.assertEqual(status, 0, said)

    def test_alerts_fire_where_they_must_and_nowhere_else(self):
        status, said = promtool("test", "rules", *TESTS)
        self.assertEqual(status, 0, said)

    def test_every_alert_is_tested_to_fire_and_not_to(self):
        tests = "".join(path.read_text() for path in TESTS)
        groups = {name: body for name, body in re.findall(r"  - name: (\w+(?: \w+)?)[^\n]*\n(.*?)(?=\n  - name: |\Z)", tests, re.S)}
        for name, severity in alerts():
            body = groups.get(name) or groups.get(f"{name} {severity}")
            self.assertIsNotNone(body, (name, severity))
            self.assertRegex(body, r"exp_samples:\n +- \{labels", name)
            self.assertRegex(body, r'="good"', name)
            self.assertNotRegex(body.split("exp_samples:")[1], r"good", name)

    def test_every_alert_says_what_an_on_call_needs(self):
        self.assertGreater(len(alerts()), 20)
        for (name, severity), block in alerts().items():
            self.assertIn(severity, ("warning", "critical"), name)
            for annotation in ("summary: ", "description: >-", "runbook_url: https://"):
                self.assertIn(annotation, block, name)
            page = re.search(r"runbook_url: \S+/(\S+|\{\{ \$labels\.rule \}\})\.md", block)[1]
            if not page.startswith("{{"):
                self.assertTrue((ROOT / "deploy/runbooks" / f"{page}.md").exists(), page)

    def test_rules_know_only_metrics_that_there_are(self):
        known = metrics()
        for path in RULES:
            recorded = set(re.findall(r"record: (\S+)", path.read_text()))
            for expr in re.findall(r"expr: (?:\|\n((?: {10}.*\n)+)|(.*)\n)", path.read_text()):
                for name in re.findall(r"\b((?:scalewatch|process)_\w+)\b(?!\s*:)", re.sub(r"\S*:\S*", "", "".join(expr))):
                    base = re.sub(r"_(bucket|sum|count)$", "", name)
                    self.assertTrue(name in known or base in known, (path.name, name))
            for name in recorded:
                self.assertRegex(name, r"^[a-z_]+:[a-z0-9_]+:[a-z0-9_]+$", "level:metric:operations")


if __name__ == "__main__":
    main()
