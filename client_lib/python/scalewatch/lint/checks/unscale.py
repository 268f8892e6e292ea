"""unscale_ twice, or after the step, between two updates: PyTorch raises."""

from __future__ import annotations

import ast
from typing import Iterator

from ..analysis import Analysis, Rule, Verdict
from ..finding import Finding
from ..paths import Path

ORDER = Rule("unscale-order", "error", "unscale_() twice for one optimizer, or after its step")
RULES = (ORDER,)


def run(analysis: Analysis) -> Iterator[Finding]:
    for event, before in analysis.always(_judge):
        again = "was already called for this optimizer" if before.kind == "unscale" else "comes after this optimizer's step"
        yield analysis.finding(
            ORDER, event.node, f"unscale_() {again} (line {before.node.lineno}) and there is no update() between: PyTorch raises. "
            "Unscale once, after the last backward pass and before clipping and step.",
            f"# once, before {ast.unparse(before.node)}" if before.kind == "step" else f"# remove: {analysis.line(event.node)}")


def _judge(path: Path) -> Iterator[Verdict]:
    for number, event in enumerate(path):
        if event.kind != "unscale":
            continue
        for before in reversed(path[:number]):
            if before.kind == "update" and before.scaler == event.scaler or before.kind == "unknown":
                yield event, False, None
                break
            same = before.scaler == event.scaler and before.target == event.target
            if same and before.kind in ("step", "unscale") and before.node is not event.node:
                yield event, True, before
                break
        else:
            yield event, False, None
