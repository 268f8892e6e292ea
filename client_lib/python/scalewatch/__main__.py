"""``python -m scalewatch``: says what the package has for a shell."""
from __future__ import annotations

import shutil
import sys
from typing import List, Optional

from .answers import http_address
from .native import version

_HELP = """\
scalewatch {version}: tells that mixed-precision training goes wrong, where it began, and what to do.

usage:
  python -m scalewatch            this page
  python -m scalewatch lint ...   checks training scripts without running them; the same as python -m scalewatch.lint
                                  (python -m scalewatch lint --help)

in a training script:
  watch = scalewatch.attach(model, optimizer, scaler, run="name")

Findings, history, log files (scalewatch doctor train.log) and what-if are the `scalewatch` command's, which comes with the
server: {command}
The server's HTTP API is looked for at {http} ($SCALEWATCH_HTTP, else port 9464 of the host of $SCALEWATCH_SERVER).
"""


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the command line; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["lint"]:
        from .lint.__main__ import command
        return command(given[1:])
    if given and given[0] not in ("--help", "-h", "help", "--version"):
        print(f"python -m scalewatch: unknown command {given[0]!r}: there is lint; findings, doctor, history and others are those of the "
              "`scalewatch` command", file=sys.stderr)
        return 2
    if given[:1] == ["--version"]:
        print(version())
        return 0
    found = shutil.which("scalewatch")
    print(_HELP.format(version=version(), http=http_address(None, None),
                       command=f"here {found}" if found else "it is not on this PATH"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
