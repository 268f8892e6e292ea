"""Debian's Prometheus scrapes scalewatchd: PromQL says what `scalewatch scaler` says, and promtool finds nothing to complain of."""
import json
import subprocess
import urllib.parse

from harness import Case, free_port, get, get_json, main, need, wait_for

PROMETHEUS = need("prometheus")
PROMTOOL = need("promtool")
STEPS = 2000  # goes on for seconds after its first critical finding: several scrapes see it open


class Prometheus(Case):
    def scrape(self, server):
        port = free_port()
        config = self.folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
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

    def test_the_json_api_and_the_command_agree(self):
        server = self.server()
        self.demo(server, "healthy", "--run", "both", "--steps", "30")
        self.assertEqual(json.loads(server.cli("--json", "scaler", "both")[1]), server.api("runs/both/scaler"))


if __name__ == "__main__":
    main()
