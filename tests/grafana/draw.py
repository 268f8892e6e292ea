#!/usr/bin/python3
"""Draws dashboards from the results that tests/integration/grafana_test.py left in a folder: one PNG a JSON file.

    tests/grafana/draw.py FOLDER

A picture of real answers, laid out as the dashboard says; not Grafana itself. Needs Chromium and npm (uplot); exits 77 and says so
without them."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import npm  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
WIDTH, LINE, HEAD = 1480, 38, 64


def main():
    folder = pathlib.Path(sys.argv[1])
    chromium = shutil.which("chromium")
    if not chromium:
        npm.skip("chromium is missing (Debian: chromium); no pictures")
    uplot = npm.install() / "node_modules/uplot/dist"
    style = (uplot / "uPlot.min.css").read_text() + (HERE / "draw.css").read_text()
    code = (uplot / "uPlot.iife.min.js").read_text() + "\n" + "\n".join(
        (HERE / name).read_text() for name in ("fields.js", "panels.js", "page.js"))
    for source in sorted(folder.glob("*.json")):
        page = json.loads(source.read_text())
        bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in page["dashboard"]["panels"])
        html = folder / (source.stem + ".html")
        data = json.dumps(page).replace("</", "<\\/")
        html.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style><body><script>{code}\ndraw({data});</script>")
        picture = folder / (source.stem + ".png")
        with tempfile.TemporaryDirectory() as profile:
            subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                            f"--window-size={WIDTH},{bottom * LINE + HEAD}", f"--screenshot={picture}", html.as_uri()],
                           check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        print(f"{picture}", flush=True)


if __name__ == "__main__":
    main()
