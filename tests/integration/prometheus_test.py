"""Debian's Prometheus scrapes scalewatchd: PromQL says what `scalewatch scaler` says, and promtool finds nothing to complain of."""
import json
import re
import subprocess
import urllib.parse

from harness import ROOT, Case, free_port, get, get_json, main, need, wait_for

PROMETHEUS = need("prometheus")
PROMTOOL = need("promtool")
STEPS = 2000  # goes on for a while after its first critical finding: several scrapes see it open


class Prometheus(Case):
    def scrape(self, server, rules=()):
        port = free_port()
        config = self.folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n"
            f"rule_files: {json.dumps([str(path) for path in rules])}\n"
            "scrape_configs:\n"
            f"  - {{job_name: scalewatch, static_configs: [{{targets: ['127.0.0.1:{server.http_port}']}}]}}\n")
        self.spawn([PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{port}"])
        self.base = f"http://127.0.0.1:{port}"
        wait_for("Prometheus", lambda: "Ready" in get(self.base + "/-/ready"))

    def query(self, expression):
        """The only sample of an instant query, as a number; None while there is none."""
        answer = get_json(self.base + "/api/v1/query?query=" + urllib.parse.quote(expression))
        result = answer["data"]["result"]
        self.assertLessEqual(len(result), 1, result)
        return float(result[0]["value"][1]) if result else None

    def test_promql_equals_what_the_command_says(self):
        server = self.server()
        self.scrape(server)
        self.demo(server, "hot", "--run", "scraped", "--steps", str(STEPS))
        told = server.cli_json("scaler", "scraped")["scaler"]
        skipped, scale = int(told["skipped"]), float(told["scale"])
        self.assertGreater(skipped, 5)
        self.assertEqual(int(told["applied"]) + skipped, STEPS)

        labels = '{job="scalewatch",run="scraped",scaler="default"'
        # The whole label set is in the answer exactly once; waiting covers the scrape interval.
        wait_for("the skip count in PromQL",
                 lambda: self.query("scalewatch_scaler_attempts_total" + labels + ',outcome="skipped"}') == skipped)
        self.assertEqual(self.query("scalewatch_scaler_scale" + labels + "}"), scale)
        self.assertEqual(self.query('sum(scalewatch_attempts_total{run="scraped"})'), STEPS)
        # The run has ended and its findings with it; while it lasted a scrape saw them.
        wait_for("no open finding", lambda: self.query('sum(scalewatch_findings_open{run="scraped"})') == 0)
        self.assertGreater(self.query('max_over_time(scalewatch_findings_open{run="scraped",severity="critical"}[5m])'), 0)
        self.assertEqual(self.query('up{job="scalewatch"}'), 1)

    def test_promtool_finds_the_page_clean(self):
        server = self.server()

        def check(when):
            page = get(server.http + "/metrics")
            done = subprocess.run([PROMTOOL, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), when)
            return page

        check("before any run")
        # Names that a text format could break on; NaN as a value.
        self.demo(server, "hot", "--run", 'quotes "and" \\ slashes', "--steps", "100")
        self.demo(server, "healthy", "--run", "four", "--ranks", "4", "--steps", "20")
        page = check("with runs")
        self.assertIn('run="quotes \\"and\\" \\\\ slashes"', page)
        self.assertIn('scalewatch_ranks{run="four"} 4', page)

    def series(self, expression):
        """Label sets of an instant query's answer, each with its value."""
        answer = get_json(self.base + "/api/v1/query?query=" + urllib.parse.quote(expression))
        return [(sample["metric"], float(sample["value"][1])) for sample in answer["data"]["result"]]

    def rules(self):
        return [rule for group in get_json(self.base + "/api/v1/rules")["data"]["groups"] for rule in group["rules"]]

    # What these runs can't show, and why.
    ABSENT = {
        "scalewatch_scaler_scale_floor": "PyTorch's scaler has none",
        "scalewatch_scaler_hysteresis": "nor this",
        "scalewatch_run_lost_reports_total": "nothing is lost",
        "scalewatch_run_thinned_reports_total": "nor thinned",
        "scalewatch_run_history_bytes": "looked at once a minute",
    }

    def test_every_rule_finds_its_data_in_real_runs(self):
        """deploy/prometheus beside real runs in all modes: as it is, but that alerts wait a second only."""
        rules = []
        for path in sorted((ROOT / "deploy/prometheus").glob("*.rules.yml")):
            rules.append(self.folder / path.name)
            rules[-1].write_text(re.sub(r"for: \w+", "for: 1s", path.read_text()))
        hook = self.sink()
        server = self.server(sinks=({"name": "hook", "type": "webhook", "url": hook.url},), settings=("history.max_run_size=1GiB",))
        self.scrape(server, rules)
        # Hot goes wrong after some 140 steps, and alerts need some scrapes of that.
        runs = {"healthy": (120, 2), "hot": (480, 1), "nan-data": (120, 2), "no-update": (500, 1)}
        for mode, (steps, ranks) in runs.items():
            self.spawn(self.demo_command(server, mode, "--run", mode, "--steps", str(steps), "--ranks", str(ranks), "--step-ms", "20"))

        def over():
            server.cli("runs")  # calls to be counted
            told = {run["name"]: run["status"] for run in server.api("runs")["runs"]}
            return len(told) == len(runs) and set(told.values()) == {"RUN_STATUS_FINISHED"}

        wait_for("all runs to end", over)
        wait_for("the last scrape", lambda: len(self.series('scalewatch_run_status{status="finished"} == 1')) == len(runs))

        known = set(get_json(self.base + "/api/v1/label/__name__/values")["data"])
        documented = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "deploy/METRICS.md").read_text(), re.M))
        shown = {name + "_bucket" if kind == "histogram" else name for name, kind in documented.items()}
        shared = {name for name in shown if name.startswith(("scalewatch_shared_history_", "scalewatch_fleet_"))}  # not configured here
        self.assertLessEqual(shown - shared - known, set(self.ABSENT), "documented, and not to be seen")
        ours = {re.sub(r"_(bucket|sum|count)$", "", name) if re.sub(r"_(bucket|sum|count)$", "", name) in documented else name
                for name in known if re.match(r"(scalewatch|process)_\w+$", name)}
        self.assertEqual(ours - set(documented), set(), "shown, and not documented")

        wait_for("all rules to be evaluated", lambda: all(rule["health"] == "ok" for rule in self.rules()))
        rules = self.rules()
        self.assertGreater(len(rules), 40)
        recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
        self.assertEqual(recorded - known, set(), "recording rules without data")
        for rule in rules:
            used = set(re.findall(r"[a-z_:]*(?:scalewatch|process)_[\w:]+", rule["query"]))
            self.assertLessEqual(used - known - recorded - shared, set(self.ABSENT), rule["name"])

        fired = {(labels["alertname"], labels["run"]) for labels, _ in
                 self.series('max_over_time(ALERTS{alertstate="firing",run!=""}[10m])')}
        for alert, run in (("FrequentSkippedSteps", "hot"), ("ScaleCollapse", "hot"), ("CriticalFinding", "hot"),
                           ("NeverApplied", "no-update"), ("CriticalFinding", "no-update")):
            self.assertIn((alert, run), fired)
        # Its data lies on the host and its steps are short, so that watching may well cost more than the twentieth part.
        self.assertLessEqual({alert for alert, run in fired if run == "healthy"}, {"MonitoringOverhead"})
        for labels, _ in self.series('last_over_time(ALERTS{alertname="CriticalFinding"}[10m])'):
            self.assertEqual(labels["source"], "prometheus")

    def test_the_json_api_and_the_command_agree(self):
        server = self.server()
        self.demo(server, "healthy", "--run", "both", "--steps", "30")
        self.assertEqual(json.loads(server.cli("--json", "scaler", "both")[1]), server.api("runs/both/scaler"))


if __name__ == "__main__":
    main()
