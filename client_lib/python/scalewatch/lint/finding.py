"""What a check reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Union


@dataclass(frozen=True, order=True)
class Finding:
    """One place in a script that trains wrongly or fragilely in mixed precision.

    Attributes:
        file: the path as given; ``<script>`` for a string.
        line: 1-based line. In a notebook: within the cell.
        column: 1-based column, counted in characters.
        rule: the name of the check, e.g. ``clip-before-unscale``; stable.
        severity: ``error`` (PyTorch raises, or the run trains wrongly), ``warning`` (it will under some values) or
            ``info`` (small loss, worth knowing).
        message: what is wrong and why it matters, in one or two sentences.
        code: the line as it is, without indentation.
        fix: the line or lines as they should be; lines are separated by newlines.
        cell: 1-based number of the notebook's code cell; None for a plain script.
    """

    file: str
    line: int
    column: int
    rule: str
    severity: str
    message: str
    code: str
    fix: str
    cell: Optional[int] = None

    @property
    def place(self) -> str:
        """``file:line:column``, or ``file:cell N:line:column``."""
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.file}:{cell}{self.line}:{self.column}"

    def as_dict(self) -> Dict[str, Union[str, int, None]]:
        """The finding as the JSON output has it."""
        return {
            "file": self.file,
            "cell": self.cell,
            "line": self.line,
            "column": self.column,
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "code": self.code,
            "fix": self.fix,
        }

    def __str__(self) -> str:
        fix = "\n".join("    + " + line for line in self.fix.splitlines())
        return f"{self.place}: {self.severity} [{self.rule}] {self.message}\n    - {self.code}\n{fix}"
