"""``python -m scalewatch.lint``: checks files and folders, prints what it found."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Dict, Iterator, List, Optional, Set

from . import RULES, UnreadableSource, check_file
from .finding import Finding

_SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages", "build", "dist"}

_EPILOG = """\
exit status: 0 nothing found, 1 findings, 2 something could not be read or the command line is wrong (findings of the
other files are still printed).

--json prints one object:
  {"version": 1, "files": <number checked>,
   "findings": [{"file", "cell" (null outside notebooks), "line", "column", "rule", "severity", "message", "code", "fix"}],
   "errors": [{"file", "message"}]}
Fields are only ever added to it.
"""


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scalewatch.lint", epilog=_EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Points at lines of a training script that break mixed precision. Runs nothing.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help=".py or .ipynb files, or folders of them")
    parser.add_argument("--json", action="store_true", help="print one JSON object (below)")
    parser.add_argument("--ignore", action="append", default=[], metavar="RULE", help="leave this rule out; may be repeated")
    parser.add_argument("--rules", action="store_true", help="list the rules and stop")
    options = parser.parse_args(arguments)
    if options.rules:
        for rule in RULES.values():
            print(f"{rule.name:26} {rule.severity:8} {rule.summary}")
        return 0
    if not options.paths:
        parser.error("no file or folder given")
    unknown = sorted(set(options.ignore) - set(RULES))
    if unknown:
        parser.error(f"no such rule: {', '.join(unknown)} (--rules lists them)")
    return _run(options.paths, set(options.ignore), options.json)


def _run(paths: List[str], ignored: Set[str], as_json: bool) -> int:
    findings: List[Finding] = []
    errors: List[Dict[str, str]] = []
    files = 0
    for path in _files(paths):
        files += 1
        try:
            findings += (finding for finding in check_file(path) if finding.rule not in ignored)
        except UnreadableSource as error:
            errors.append({"file": path, "message": str(error)})
        except OSError as error:
            errors.append({"file": path, "message": error.strerror or str(error)})
    if as_json:
        print(json.dumps({"version": 1, "files": files, "findings": [f.as_dict() for f in findings], "errors": errors}, indent=1))
    else:
        for finding in findings:
            print(finding)
        for failed in errors:
            print(f"{failed['file']}: not checked: {failed['message']}", file=sys.stderr)
        print(f"{files} file(s), {len(findings)} finding(s)", file=sys.stderr)
    return 2 if errors else 1 if findings else 0


def _files(paths: List[str]) -> Iterator[str]:
    """The files named, and the scripts and notebooks in the folders named, in a stable order. Links are not followed."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED_FOLDERS)
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith((".py", ".ipynb")))


def command(arguments: Optional[List[str]] = None) -> int:
    """As main(), quiet when the reader of its output (head, less) has seen enough."""
    try:
        status = main(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


if __name__ == "__main__":
    sys.exit(command())
