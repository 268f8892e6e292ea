"""What Grafana does with a dashboard before it is drawn: variables, intervals, queries. Enough of it to run every panel against a real
Prometheus and a real scalewatchd, and no more."""
import json
import math
import pathlib
import re
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DASHBOARDS = ROOT / "deploy/grafana/dashboards"
PIXELS_A_COLUMN = 60  # of 24; a panel asks for as many points as it is wide


def load(name):
    return json.loads((DASHBOARDS / f"{name}.json").read_text())


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def fetch(url, parameters, post=False, tries=5):
    """The answer of a GET (or a form's POST) as JSON; an error's text is in the exception. scalewatchd says 503 to a read that takes
    too long, as on a busy machine: asked again, as a page that refreshes does."""
    encoded = urllib.parse.urlencode(parameters, doseq=True)
    request = urllib.request.Request(url, encoded.encode()) if post else urllib.request.Request(url + ("?" + encoded if encoded else ""))
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 503 and tries > 1:
            time.sleep(0.5)
            return fetch(url, parameters, post, tries - 1)
        raise AssertionError(f"{url}?{encoded}: {error.code}: {error.read().decode(errors='replace')[:500]}") from error


class View:
    """A dashboard as somebody looks at it: two data sources, a time range (Unix seconds) and chosen variables."""

    def __init__(self, prometheus, scalewatch, start, end, scrape=1.0):
        self.prometheus, self.scalewatch = prometheus, scalewatch
        self.start, self.end, self.scrape = start, end, scrape
        self.values = {}  # name: a text, or a list of texts for All

    # ---- text ------------------------------------------------------------------------------------------------------
    def step(self, panel):
        points = panel.get("maxDataPoints") or panel["gridPos"]["w"] * PIXELS_A_COLUMN
        return self.scrape * max(1, math.ceil((self.end - self.start) / points / self.scrape))

    def _globals(self, step):
        span = int(self.end - self.start)
        return {"__rate_interval": f"{int(1000 * max(step + self.scrape, 4 * self.scrape))}ms", "__interval": f"{int(1000 * step)}ms",
                "__range": f"{span}s", "__range_s": str(span), "__from": str(int(self.start * 1000)), "__to": str(int(self.end * 1000))}

    def text(self, text, step=1, quote=None):
        """Variables replaced. In PromQL a list becomes a pattern, and a name's special characters are escaped."""
        known = self._globals(step)

        def replace(match):
            name, form = (match.group(1) or match.group(2)), match.group(3)
            if name in known:
                return known[name]
            if name not in self.values:
                raise AssertionError(f"unknown variable {name} in {text}")
            value = self.values[name]
            if form == "percentencode":
                return urllib.parse.quote(value, safe="")
            if isinstance(value, list):
                return "(" + "|".join(re.sub(r"([\\^$.|?*+()\[\]{}/])", r"\\\\\1", one) for one in value) + ")"
            return value.replace("\\", "\\\\").replace('"', '\\"') if quote == "promql" else value

        return re.sub(r"\$(?:(\w+)|\{(\w+)(?::(\w+))?\})", replace, text)

    # ---- variables -------------------------------------------------------------------------------------------------
    def choose(self, dashboard, **wanted):
        """Fills the variables in order, as a page does that opens with these in its address."""
        for variable in dashboard["templating"]["list"]:
            name, kind = variable["name"], variable["type"]
            if kind == "datasource":
                continue
            options = self.options(variable) if kind == "query" else None
            if name in wanted:
                self.values[name] = wanted[name]
            elif kind == "custom":
                self.values[name] = variable["current"]["value"]
            elif kind == "constant":
                self.values[name] = variable["query"]
            elif variable.get("includeAll"):
                self.values[name] = variable.get("allValue", options)
            else:
                self.values[name] = options[0] if options else ""
            if name in wanted and options is not None and wanted[name] not in options and not isinstance(wanted[name], list):
                raise AssertionError(f"{dashboard['uid']}: variable {name} offers {options}, not {wanted[name]}")
        return self

    def options(self, variable):
        query = variable["query"]
        if "infinityQuery" in query:
            found = [row[query["infinityQuery"]["columns"][0]["selector"]] for row in self.rows(query["infinityQuery"])]
        else:
            text = self.text(query["query"], quote="promql")
            period = {"start": self.start, "end": self.end}
            names = re.fullmatch(r"label_names\((.*)\)", text)
            values = re.fullmatch(r"label_values\((.*), (\w+)\)", text)
            if names:
                found = fetch(self.prometheus + "/api/v1/labels", {"match[]": names.group(1), **period})["data"]
            else:
                found = fetch(f"{self.prometheus}/api/v1/label/{values.group(2)}/values", {"match[]": values.group(1), **period})["data"]
        if variable.get("regex"):
            pattern = re.compile(variable["regex"].strip("/"))
            found = [match.group(1) for match in map(pattern.search, found) if match]
        return list(dict.fromkeys(found))

    # ---- queries ---------------------------------------------------------------------------------------------------
    def run(self, panel):
        """Results of a panel's targets, by refId: {"kind": "matrix" | "vector" | "rows", "result": [...]}."""
        return {target["refId"]: self.target(target, self.step(panel)) for target in panel["targets"]}

    def target(self, target, step):
        if target["datasource"]["type"] != "prometheus":
            drawn = [column["selector"] for column in target["columns"] if column["type"] == "number" and target["format"] == "timeseries"]
            return {"kind": "rows", "result": self.rows(target), "numbers": drawn}
        expression = self.text(target["expr"], step, quote="promql")
        if target["instant"]:
            answer = fetch(self.prometheus + "/api/v1/query", {"query": expression, "time": self.end}, post=True)
        else:
            answer = fetch(self.prometheus + "/api/v1/query_range",
                           {"query": expression, "start": self.start, "end": self.end, "step": step}, post=True)
        return {"kind": answer["data"]["resultType"], "result": answer["data"]["result"], "step": step,
                "legend": target["legendFormat"]}

    def rows(self, target):
        """The array that the Infinity plugin's backend reads. Checks what it needs: flat objects that have the columns."""
        parameters = {pair["key"]: self.text(pair["value"]) for pair in target["url_options"]["params"]}
        rows = fetch(self.scalewatch + self.text(target["url"]), parameters)
        if not isinstance(rows, list):
            raise AssertionError(f"{target['url']}: not an array: {rows!r:.200}")
        kinds = {"string": str, "number": (int, float), "timestamp_epoch": int}
        for row in rows:
            for column in target["columns"]:
                if column["selector"] not in row:
                    raise AssertionError(f"{target['url']}: no column {column['selector']} in {row}")
                value = row[column["selector"]]
                if value is not None and not isinstance(value, kinds[column["type"]]):
                    raise AssertionError(f"{target['url']}: {column['selector']} is {value!r}, not a {column['type']}")
        if target["format"] == "timeseries":
            times = [row["time"] for row in rows]
            if times != sorted(times):  # the plugin turns long into wide only when time rises
                raise AssertionError(f"{target['url']}: times fall")
        return rows


def has_data(result):
    """Whether there is anything to draw: a sample that is a number, a row."""
    if result["kind"] == "rows":
        return any(row[name] is not None for row in result["result"] for name in result["numbers"] or row)
    samples = [series["values"] if "values" in series else [series["value"]] for series in result["result"]]
    return any(sample[1] != "NaN" for values in samples for sample in values)
