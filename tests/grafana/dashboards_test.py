"""Checks of deploy/grafana and deploy/compose.yaml that need no server: what is checked in is what the source generates, and what the
dashboards name exists. Debian's jsonnet and python3-yaml."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from grafana import DASHBOARDS, ROOT, load, panels  # noqa: E402

NAMES = ["fleet", "numerics", "run", "server"]
UNITS = {"none", "short", "percentunit", "s", "ms", "bytes", "ops", "sci", "dateTimeAsIso"}  # of those that Grafana knows
DEPRECATED = {"graph", "singlestat", "table-old", "grafana-piechart-panel", "grafana-worldmap-panel", "heatmap-new", "angular"}
OWN = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}  # Prometheus' own
GLOBALS = {"__from", "__to", "__rate_interval", "__url_time_range", "__data", "__field", "__all", "__interval", "__range"}


def walk(value, path=""):
    """All (path, value) of a tree."""
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from walk(inner, f"{path}/{key}")


def documented():
    """Names of metrics, with their labels, that METRICS.md has."""
    found = {}
    for name, kind, _, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*?) \|", (ROOT / "deploy/METRICS.md").read_text(), re.M):
        found[name] = set(re.findall(r"`([\w*]+)`", labels))
        if kind == "histogram":
            found[name + "_bucket"] = found[name + "_count"] = found[name + "_sum"] = found[name] | {"le"}
    return found


class Dashboards(unittest.TestCase):
    def test_what_is_checked_in_is_what_the_source_says(self):
        if not shutil.which("jsonnet"):
            self.skipTest("jsonnet is missing; tests/run installs it")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "deploy/grafana/generate", folder], check=True)
            made = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
        kept = {path.name: path.read_text() for path in DASHBOARDS.iterdir()}
        self.assertEqual(sorted(made), sorted(kept))
        for name in made:
            self.assertEqual(made[name], kept[name], f"{name}: run deploy/grafana/generate")

    def test_identity_and_layout(self):
        for board in map(load, NAMES):
            self.assertRegex(board["uid"], r"^scalewatch-(fleet|run|numerics|server)$")
            ids = [panel["id"] for panel in board["panels"]]
            self.assertEqual(len(ids), len(set(ids)))
            taken = set()
            for panel in board["panels"]:
                grid = panel["gridPos"]
                cells = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])}
                self.assertFalse(cells & taken, f"{panel['title']} lies over another")
                self.assertLessEqual(grid["x"] + grid["w"], 24, panel["title"])
                taken |= cells

    def test_panels_explain_themselves(self):
        for board in map(load, NAMES):
            for panel in panels(board):
                self.assertNotIn(panel["type"], DEPRECATED)
                self.assertGreater(len(panel["description"]), 20, panel["title"])
                self.assertTrue(panel["description"].endswith("."), panel["title"])
                units = [value for path, value in walk(panel) if path.endswith("/unit")]
                units += [value["value"] for _, value in walk(panel) if isinstance(value, dict) and value.get("id") == "unit"]
                self.assertLessEqual(set(units), UNITS, panel["title"])

    def test_data_sources_are_variables(self):
        for board in map(load, NAMES):
            for path, value in walk(board):
                if path.endswith("/datasource"):
                    self.assertIn(value["uid"], ("${datasource}", "${infinity}", "-- Grafana --"), path)

    def test_metrics_and_labels_are_in_the_reference(self):
        known = documented()
        self.assertGreater(len(known), 60)
        for board in map(load, NAMES):
            texts = [value for path, value in walk(board) if path.endswith("/expr")]
            texts += [value for path, value in walk(board["templating"]) if path.endswith("/query/query")]
            for text in texts:
                for name, labels in re.findall(r"\b((?:scalewatch|process|scrape)_\w+|up)\b(?:\{(.*?)\})?", text):
                    self.assertIn(name, known.keys() | OWN, text)
                    if name in OWN:
                        continue
                    for label in re.findall(r"([\w$]+)(?:=~|!=|=|!~)\"", labels):
                        self.assertTrue(label in known[name] | {"instance", "job", "label_$label"}, f"{name} has no label {label}: {text}")

    def test_rates_follow_the_zoom(self):
        for board in map(load, NAMES):
            for path, text in walk(board):
                if path.endswith("/expr"):
                    self.assertEqual(re.findall(r"\[(?!\$__(?:rate_interval|range)\])[^\]]*\]", text), [], text)

    def test_variables_and_links_lead_somewhere(self):
        uids = {load(name)["uid"] for name in NAMES}
        links = 0
        for board in map(load, NAMES):
            names = {variable["name"] for variable in board["templating"]["list"]}
            for path, value in walk(board):
                if not isinstance(value, str):
                    continue
                used = {one or other for one, other in re.findall(r"\$(?:(\w+)|\{(\w+))", value) if not (one or other).isdigit()}
                if not path.endswith("/regex"):
                    self.assertLessEqual(used, names | GLOBALS, f"{path}: {value}")
                if path.endswith("/url") and value.startswith("/d/"):
                    self.assertIn(value.split("/")[2], uids, path)
                    links += 1
        self.assertGreater(links, 4)

    def test_runbooks_are_where_the_rules_say(self):
        bases = {v["query"] for name in NAMES for v in load(name)["templating"]["list"] if v["name"] == "runbooks"}
        self.assertEqual(len(bases), 1)
        for rules in (ROOT / "deploy/prometheus").glob("*.rules.yml"):
            for url in re.findall(r"runbook_url: [\"']?(\S+?)/\w+\.md", rules.read_text()):
                self.assertIn(url, bases, rules.name)


class Deployment(unittest.TestCase):
    def setUp(self):
        self.compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())

    def test_paths_that_compose_mounts_exist(self):
        count = 0
        for name, service in self.compose["services"].items():
            for mount in service.get("volumes", []):
                source = mount.split(":")[0]
                if source.startswith("."):
                    self.assertTrue((ROOT / "deploy" / source).exists(), f"{name}: {source}")
                    count += 1
                else:
                    self.assertIn(source, self.compose["volumes"], name)
            if "build" in service:
                context = ROOT / "deploy" / service["build"]["context"]
                dockerfile = context / service["build"]["dockerfile"]
                self.assertRegex(dockerfile.read_text(), rf"(?m)^FROM \S+ AS {service['build']['target']}$")
                self.assertRegex(dockerfile.read_text(), r"(?m)^USER 10464:10464$")
            self.assertNotIn("privileged", service)
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), f"{name}: {port} would be open to the network")
        self.assertGreater(count, 4)

    def test_addresses_agree(self):
        services = self.compose["services"]
        ports = {name: {port.split(":")[-1] for port in service.get("ports", [])} for name, service in services.items()}
        texts = [json.dumps(self.compose)] + [path.read_text() for path in (ROOT / "deploy/compose").iterdir()]
        found = {(host, port) for text in texts for host, port in re.findall(r"\b(scalewatchd|prometheus|alertmanager|grafana):(\d{4})\b", text)}
        self.assertLessEqual({("scalewatchd", "9464"), ("scalewatchd", "7462"), ("alertmanager", "9093"), ("prometheus", "9090")}, found)
        for host, port in found:
            self.assertIn(port, ports[host], f"{host}:{port}")
        server = yaml.safe_load((ROOT / "deploy/compose/scalewatchd.yaml").read_text())
        self.assertEqual({server["listen"]["grpc"].split(":")[1], server["listen"]["http"].split(":")[1]}, ports["scalewatchd"])

    def test_grafana_is_provisioned(self):
        folder = ROOT / "deploy/grafana/provisioning"
        sources = yaml.safe_load((folder / "datasources/scalewatch.yaml").read_text())["datasources"]
        environment = self.compose["services"]["grafana"]["environment"]
        wanted = {v["query"] for name in NAMES for v in load(name)["templating"]["list"] if v["type"] == "datasource"}
        self.assertEqual({source["type"] for source in sources}, wanted)
        for source in sources:
            self.assertIn(source["url"].lstrip("$"), environment)
        self.assertIn("yesoreyeram-infinity-datasource", environment["GF_PLUGINS_PREINSTALL"])
        provider = yaml.safe_load((folder / "dashboards/scalewatch.yaml").read_text())["providers"][0]
        mounts = dict(reversed(mount.split(":")[:2]) for mount in self.compose["services"]["grafana"]["volumes"])
        self.assertEqual(mounts[provider["options"]["path"]], "./grafana/dashboards")
        home = pathlib.PurePath(environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
        self.assertEqual(str(home.parent), provider["options"]["path"])
        self.assertTrue((DASHBOARDS / home.name).exists())

    def test_prometheus_finds_the_rules(self):
        config = yaml.safe_load((ROOT / "deploy/compose/prometheus.yml").read_text())
        self.assertEqual(config["scrape_configs"][0]["job_name"], "scalewatch")  # the rules know it by this name
        for pattern in config["rule_files"]:
            folder, _, name = pattern.rpartition("/")
            self.assertEqual(folder, "/etc/prometheus/scalewatch")
            self.assertTrue(list((ROOT / "deploy/prometheus").glob(name)), pattern)

    def test_programs_take_their_configuration(self):
        folder = ROOT / "deploy/compose"
        # Where tests/run puts what Debian's packages hold, and where this was built.
        places = os.pathsep.join([os.environ["PATH"], str(ROOT / "build/tools/usr/bin"),
                                  os.environ.get("SCALEWATCH_BIN", str(ROOT / "build/release/bin"))])
        for command in (["promtool", "check", "config", "--syntax-only", folder / "prometheus.yml"],
                        ["amtool", "check-config", folder / "alertmanager.yml"],
                        ["scalewatchd", "--config", folder / "scalewatchd.yaml", "--check"]):
            with self.subTest(program=command[0]):
                program = shutil.which(command[0], path=places)
                if not program:
                    self.skipTest(f"{command[0]} is missing")
                done = subprocess.run([program, *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
