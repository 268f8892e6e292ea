"""Reads a training script's syntax tree and points at what breaks mixed precision. Runs nothing, imports nothing of it.

From a shell: ``python -m scalewatch.lint train.py folder/ notebook.ipynb``. From Python::

    from scalewatch import lint
    for finding in lint.check(open("train.py").read()):
        print(finding)

A line is excused by ``# scalewatch: ignore[rule]`` on it or alone above it; without ``[...]`` from every rule.
Where a script does not show enough to be sure, the checks say nothing.
"""

from __future__ import annotations

from typing import List

from .analysis import Analysis, Rule
from .checks import CHECKS, RULES
from .finding import Finding
from .ignores import Ignores
from .script import Script
from .sources import Source, UnreadableSource, from_file, from_text

__all__ = ["Finding", "RULES", "Rule", "UnreadableSource", "check", "check_file"]


def check(source: str, path: str = "<script>") -> List[Finding]:
    """Checks the text of one script; findings in the order of lines.

    Args:
        source: Python text; notebook magics (``%``, ``!``) are passed over.
        path: the name that the findings carry.

    Raises:
        UnreadableSource: the text is not Python of this interpreter's version, or nested too deeply.
    """
    return _check(from_text(source, path))


def check_file(path: str) -> List[Finding]:
    """Checks one file; findings in the order of lines.

    Args:
        path: of a ``.py`` or ``.ipynb`` file of 8 MiB at most.

    Raises:
        UnreadableSource: as check(); also for a notebook that is no notebook, or a file that is too large.
        OSError: the file can't be read.
    """
    return _check(from_file(path))


def _check(source: Source) -> List[Finding]:
    try:
        analysis = Analysis(Script(source))
        found = {finding for run in CHECKS for finding in run(analysis)}
    except RecursionError as error:
        raise UnreadableSource("nested too deeply") from error
    ignores = Ignores(source.text)
    lines = {origin: number for number, origin in enumerate(source.cells, 1)}
    kept = [f for f in found if not ignores.covers(f.line if f.cell is None else lines[(f.cell, f.line)], f.rule)]
    return sorted(kept, key=lambda f: (f.cell or 0, f.line, f.column, f.rule))
