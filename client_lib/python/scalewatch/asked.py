"""What a watch can be asked: of the server, and of a script by its source."""
from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

from .answers import Finding, Point, Questions, ServerError

__all__ = ["Asked"]


class Asked:
    """The questions of a Watch."""

    _questions: Questions

    def findings(self, open_only: bool = False, every_segment: bool = False) -> List[Finding]:
        """What the server found since this run last started (every_segment: under its name at all), worst first; open_only: without
        what has resolved. Waits for the server at most 10 s; ServerError when it is away."""
        return self._questions.findings(open_only, every_segment)

    def history(self, pattern: str = "*", role: Optional[str] = None, max_points: int = 1000) -> List[Point]:
        """Statistics over attempts of the tensors whose name matches the pattern, e.g. history("layers.3.*", role="gradient"; None = all
        roles): at most max_points a tensor, neighbours are merged. Waits for the server at most 10 s a tensor; ServerError when it is
        away, ValueError when more than 100 tensors match. scalewatch.table() makes a pandas or Arrow table of it."""
        return self._questions.history(pattern, role, max_points)

    def whatif(self, policy: Optional[str] = None, **settings: float) -> Dict[str, Any]:
        """What another scaler, or other parameters, would have done, e.g. whatif(init_scale=2**12, growth_interval=5000). policy: None =
        the run's own. settings: the policy's parameters by name. Gives the JSON of `scalewatch whatif --json`. Asks that command;
        ServerError without it, or when the server is away."""
        return self._questions.whatif(policy, settings)

    @staticmethod
    def lint(path: Optional[str] = None) -> List[Any]:
        """What scalewatch.lint says of the script at path (.py or .ipynb), by its source alone: a list of scalewatch.lint.Finding. None =
        the script that runs; ValueError where there is none (a notebook: name its file), OSError and lint.UnreadableSource as
        lint.check_file."""
        from .lint import check_file
        chosen = path or getattr(sys.modules["__main__"], "__file__", None)
        if chosen is None:
            raise ValueError("no script is running: name the file")
        return list(check_file(chosen))

    @property
    def questions(self) -> Questions:
        """Everything else that the server can be asked about the run: its summary, tensors, attempts, scalers."""
        return self._questions

    def _repr_html_(self) -> str:
        from .notebook import html
        try:
            return html(self._questions)
        except ServerError as error:
            from html import escape
            return f"<p>{escape(repr(self))}: {escape(str(error))}</p>"
