"""Gradients clipped while they still carry the scale."""

from __future__ import annotations

import ast
from typing import Iterator

from ..analysis import Analysis, Rule, Verdict
from ..finding import Finding
from ..paths import Path

CLIP = Rule("clip-before-unscale", "error", "gradients clipped while they are still multiplied by the scale")
RULES = (CLIP,)


def run(analysis: Analysis) -> Iterator[Finding]:
    for event, step in analysis.always(_judge):
        if analysis.script.is_inert(step.scaler):
            continue
        scaler, optimizer = step.owner, ast.unparse(step.node.args[0])
        yield analysis.finding(
            CLIP, event.node, f"These gradients are still multiplied by the scale (65536 at the start), so the limit is reached at "
            f"once and every step becomes tiny. Call {scaler}.unscale_({optimizer}) first; step() then does not unscale again.",
            f"{scaler}.unscale_({optimizer})\n{analysis.line(event.node)}")


def _judge(path: Path) -> Iterator[Verdict]:
    for number, event in enumerate(path):
        if event.kind != "clip":
            continue
        scaled_by = None
        for before in reversed(path[:number]):
            if before.kind == "scaled_backward":
                scaled_by = before.scaler
                break
            if before.kind in ("unscale", "get_scale", "unknown"):
                yield event, False, None
                break
            if before.kind in ("step", "update", "backward", "optimizer_step"):
                break
        if scaled_by is None:
            continue
        for after in path[number + 1:]:
            if after.kind in ("scaled_backward", "update", "unknown", "optimizer_step"):
                break
            if after.kind == "step" and after.scaler == scaled_by:
                yield event, True, after
                break
