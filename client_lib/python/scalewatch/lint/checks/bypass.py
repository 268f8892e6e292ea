"""A scaled loss whose optimizer steps without the scaler, or once more after it; a scaler that steps on what it never scaled."""

from __future__ import annotations

import ast
from typing import Iterator

from ..analysis import Analysis, Rule, Verdict
from ..finding import Finding
from ..names import calls_in, path_of, tokens
from ..paths import Path

STEP = Rule("step-without-scaler", "error", "optimizer.step() on gradients that are multiplied by the scale")
BACKWARD = Rule("backward-without-scale", "error", "scaler.step() on gradients that were never scaled")
TWICE = Rule("double-step", "error", "optimizer.step() after scaler.step(optimizer): the same gradients are applied twice")
RULES = (STEP, BACKWARD, TWICE)


def run(analysis: Analysis) -> Iterator[Finding]:
    script = analysis.script
    for event, scaler in analysis.always(_unscaled_step):
        if script.is_inert(scaler) or _wraps(analysis, event.target):
            continue
        optimizer = event.owner
        yield analysis.finding(
            STEP, event.node, "The loss was scaled, so without unscale_() these gradients are too large by the scale, and an overflow is "
            f"applied to the weights instead of skipped. {scaler}.step() unscales (once) and skips.", f"{scaler}.step({optimizer})\n{scaler}.update()")
    for event, scaler in analysis.always(_second_step):
        if script.is_inert(scaler) or _wraps(analysis, event.target):
            continue
        yield analysis.finding(
            TWICE, event.node, f"{scaler}.step({event.owner}) has stepped already: this applies the same gradients a second time, and also "
            "when the scaler skipped them because they were not finite.", "(leave the line out)")
    scales = {ast.unparse(n.value).rsplit(".", 1)[-1] for n in script.nodes if isinstance(n, ast.Attribute) and n.attr == "scale"}
    for event, backward in analysis.always(_unscaled_backward):
        scaler = event.owner
        if scaler.rsplit(".", 1)[-1] in scales or not script.is_made(event.scaler) or script.is_inert(event.scaler):
            continue
        loss = backward.owner
        yield analysis.finding(
            BACKWARD, backward.node, f"{scaler}.step() divides the gradients by the scale, but this loss was never multiplied by it: "
            "the updates are about 65536 times too small, and small gradients are lost as before.",
            f"{scaler}.scale({loss}).backward()")


def _wraps(analysis: Analysis, optimizer: str) -> bool:
    """True if the optimizer was made with the scaler: it then unscales by itself."""
    script = analysis.script
    for value in script.values.get(optimizer, ()):
        given = [v for call in calls_in(value) for v in [*call.args, *(word.value for word in call.keywords)]]
        if any(script.is_scaler(path_of(v)) or "scaler" in tokens(ast.unparse(v)) for v in given):
            return True
    return False


def _unscaled_step(path: Path) -> Iterator[Verdict]:
    for number, event in enumerate(path):
        if event.kind != "optimizer_step":
            continue
        for before in reversed(path[:number]):
            # After unscale_() the size is right, and what overflowed is applied all the same: unless a condition asks.
            if before.kind == "scaled_backward" or (before.kind == "unscale" and before.target == event.target
                                                    and before.guards == event.guards):
                yield event, True, before.scaler
                break
            if before.kind in ("unscale", "step", "update", "unknown", "get_scale", "backward", "optimizer_step"):
                yield event, False, None
                break
        else:
            yield event, False, None


def _second_step(path: Path) -> Iterator[Verdict]:
    for number, event in enumerate(path):
        if event.kind != "optimizer_step":
            continue
        for before in reversed(path[:number]):
            if before.kind in ("scaled_backward", "backward", "unknown"):
                yield event, False, None
                break
            if before.kind == "step" and before.target == event.target:
                yield event, True, before.scaler
                break


def _unscaled_backward(path: Path) -> Iterator[Verdict]:
    for number, event in enumerate(path):
        if event.kind != "step":
            continue
        before = path[:number]
        plain = [e for e in before if e.kind == "backward" and isinstance(e.node.func, ast.Attribute)]
        sure = not any(e.kind in ("scaled_backward", "unknown", "get_scale") for e in before)
        yield event, bool(plain) and sure, plain[-1] if plain else None
