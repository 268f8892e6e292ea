"""Every query of the dashboards in deploy/grafana against Debian's Prometheus, which scrapes a scalewatchd that real demo runs feed: it
is understood, and it brings data where it should. Results go to grafana/ in the build folder, and, where Chromium and npm are, pictures
drawn from them (tests/grafana/draw.py)."""
import json
import os
import pathlib
import subprocess
import sys
import time

from harness import BIN, Case, free_port, get, main, need, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "grafana"))
import grafana  # noqa: E402

PROMETHEUS = need("prometheus")
OUT = BIN.parent / "grafana"
SCRAPE = 0.5  # seconds; a shorter one times out on a busy machine
RUNS = {  # run: demo's arguments; long enough for a few dozen scrapes. What skips of hot at a scale above 0 show takes 130 steps.
    "healthy": ["healthy", "--ranks", "4", "--steps", "500", "--step-ms", "16", "--growth-interval", "60"],
    "hot": ["hot", "--steps", "400", "--step-ms", "32"],
    "nan-data": ["nan-data", "--ranks", "2", "--steps", "500", "--step-ms", "16"],
    "no-update": ["no-update", "--steps", "500", "--step-ms", "16"],
}
EVERY = set(RUNS)
# What may have nothing to show, and for which runs; with why. Everything else must bring data for every run.
MAY_BE_EMPTY = {
    ("scalewatch-run", "Loss scale and skips", "B"): ({"healthy"}, "few skips, and a scrape may miss the first"),
    ("scalewatch-run", "Loss scale and skips", "C"): (EVERY, "PyTorch's policy has no floor"),
    ("scalewatch-run", "Room of the loss scale", "B"): (EVERY, "PyTorch's policy has no floor"),
    ("scalewatch-run", "Growth tracker", "B"): (EVERY, "PyTorch's policy has no hysteresis"),
    ("scalewatch-run", "Skips by reason", "A"): ({"healthy"}, "few skips, and a scrape may miss the first"),
    ("scalewatch-run", "Open findings by rule", "A"): ({"healthy", "nan-data"}, "none, or too short"),
    ("scalewatch-run", "Reports lost or thinned", "A"): (EVERY, "nothing is lost on loopback"),
    ("scalewatch-run", "Reports lost or thinned", "B"): (EVERY, "nothing is thinned on loopback"),
    ("scalewatch-fleet", "Reports lost", "A"): (EVERY, "nothing is lost on loopback"),
    ("scalewatch-server", "Lost, by cause", "A"): (EVERY, "nothing is lost on loopback"),
    ("scalewatch-server", "Turned away", "A"): (EVERY, "nobody was"),
    ("scalewatch-run", "Loss and gradient norm", "A"): ({"hot"}, "NaN after its first second"),
    ("scalewatch-run", "Loss and gradient norm", "B"): ({"hot"}, "NaN after its first second"),
    ("scalewatch-server", "Runs and their quota", "A"): (EVERY, "looked at once a minute"),
    ("scalewatch-numerics", "Attempts with non-finite values", "A"): ({"healthy"}, "few"),
    ("scalewatch-numerics", "Non-finite elements", "A"): ({"healthy"}, "few"),
}


class Grafana(Case):
    def setUp(self):
        super().setUp()
        sink = self.sink()
        self.scalewatchd = self.server(sinks=[{"name": "hook", "type": "webhook", "url": sink.url}], settings=["metrics.finished_for=1h", "history.max_run_size=1GiB"])
        port = free_port()
        config = self.folder / "prometheus.yml"
        config.write_text(f"global: {{scrape_interval: {int(1000 * SCRAPE)}ms, scrape_timeout: {int(1000 * SCRAPE)}ms}}\nscrape_configs:\n"
                          f"  - {{job_name: scalewatch, static_configs: [{{targets: ['127.0.0.1:{self.scalewatchd.http_port}']}}]}}\n")
        self.spawn([PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{port}"])
        self.prometheus = f"http://127.0.0.1:{port}"
        wait_for("Prometheus", lambda: "Ready" in get(self.prometheus + "/-/ready"))

    def feed(self):
        """Trains all runs at once while somebody looks at them. Returns the times of begin, middle (all train, and some of them badly)
        and end, Unix seconds."""
        start = time.time()
        demos = [self.spawn(self.demo_command(self.scalewatchd, *arguments, "--run", run, "--progress", "0"))
                 for run, arguments in RUNS.items()]
        bad_since = middle = None
        while any(demo.poll() is None for demo in demos):
            self.scalewatchd.cli("runs", check=False)
            if middle is None and len(self.bad_runs()) >= 2:
                bad_since = bad_since or time.time()
                if time.time() - bad_since > 6 * SCRAPE:  # so that there are rates of all
                    middle = time.time()
            time.sleep(SCRAPE)
        self.assertEqual([demo.returncode for demo in demos], [0] * len(demos))
        said = (self.folder / "scalewatch-demo.log").read_text()
        self.assertNotIn("not all reports reached", said, said[-2000:])
        for run in RUNS:
            wait_for(f"the end of {run} in Prometheus", lambda run=run: grafana.fetch(
                self.prometheus + "/api/v1/query", {"query": f'scalewatch_run_status{{run="{run}",status="finished"}} == 1'})["data"]["result"])
        self.assertIsNotNone(middle, "hot and no-update went wrong and Prometheus did not see it")
        return start, middle, time.time()

    def bad_runs(self):
        query = 'max by (run) (scalewatch_findings_open{severity="critical"} > 0)'
        return grafana.fetch(self.prometheus + "/api/v1/query", {"query": query})["data"]["result"]

    def test_every_query_brings_data(self):
        start, middle, end = self.feed()
        OUT.mkdir(exist_ok=True)
        wrong = []
        pages = [("fleet", {}, EVERY, middle), ("server", {}, EVERY, end)]
        for run in RUNS:
            pages.append(("run", {"run": run}, {run}, end))
            pages.append(("numerics", {"run": run, "role": "activation" if run == "hot" else "gradient"}, {run}, end))
        for name, chosen, runs, until in pages:
            dashboard = grafana.load(name)
            view = grafana.View(self.prometheus, self.scalewatchd.http, start, until, SCRAPE).choose(dashboard, **chosen)
            if name == "numerics" and "hot" in runs:
                view.values["tensor"] = "block3.fc.out"
            page = {"dashboard": dashboard, "values": view.values, "start": start, "end": until, "results": {}, "annotations": []}
            for panel in grafana.panels(dashboard):
                try:
                    results = view.run(panel)
                except AssertionError as error:
                    wrong.append(f"{name} {chosen}: {panel['title']}: {error}")
                    continue
                page["results"][panel["id"]] = results
                for ref, result in results.items():
                    allowed, _ = MAY_BE_EMPTY.get((dashboard["uid"], panel["title"], ref), (set(), ""))
                    if not grafana.has_data(result) and not runs & allowed:
                        wrong.append(f"{name} {chosen}: {panel['title']}, query {ref}: no data")
            for annotation in dashboard["annotations"]["list"]:
                if "target" in annotation:
                    page["annotations"].append({**annotation, "rows": view.rows(annotation["target"])})
                elif "expr" in annotation:
                    target = {**annotation, "instant": False, "legendFormat": ""}
                    page["annotations"].append({**annotation, **view.target(target, 1)})
            (OUT / ("-".join([name, *chosen.values()][:2]) + ".json")).write_text(json.dumps(page))
            if chosen.get("run") == "hot":
                self.assertTrue(any(a.get("rows") or a.get("result") for a in page["annotations"]), "no annotation tells of the hot run")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
        self.draw()

    def draw(self):
        """Pictures take half a minute, so only tests/run grafana asks for them."""
        if not os.environ.get("SCALEWATCH_NPM"):
            return
        done = subprocess.run(["/usr/bin/python3", "-B", str(grafana.ROOT / "tests/grafana/draw.py"), str(OUT)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        print(done.stdout + done.stderr)
        self.assertIn(done.returncode, (0, 77), done.stderr)  # 77: no Chromium or no npm here, and it said so


if __name__ == "__main__":
    main()
