"""A scheduler that is stepped on every iteration, also when the scaler skipped the optimizer."""

from __future__ import annotations

import ast
from typing import Dict, Iterator, Optional, Set, Tuple

from ..analysis import Analysis, Rule
from ..finding import Finding
from ..conditions import decided
from ..flow import Flow
from ..names import tokens
from ..paths import Event, Guard
from ..script import FRAMEWORKS
from .update import training_loop

SCHEDULER = Rule("scheduler-after-skip", "info", "a per-iteration scheduler stepped whether or not the scaler skipped")
RULES = (SCHEDULER,)
_SKIP_WORDS = {"skip", "skipped", "overflow", "inf", "finite", "isfinite", "applied", "stepped", "ran", "run"}
_HARMLESS_WORDS = {"scheduler", "schedule", "sched", "warmup", "lr"}


def run(analysis: Analysis) -> Iterator[Finding]:
    script = analysis.script
    if script.only_bf16 or script.names.imports(*FRAMEWORKS):
        return
    wrong: Dict[Tuple[int, int], Tuple[Event, Event]] = {}
    right: Set[Tuple[int, int]] = set()
    for flow in analysis.flows:
        for event in flow.of("scheduler_step"):
            step = _step_of_its_loop(analysis, flow, event)
            if step is not None:
                wrong.setdefault(event.at, (event, step))
            elif event.loops:
                right.add(event.at)
    for at, (event, step) in sorted(wrong.items()):
        if at in right:
            continue
        scaler = step.owner
        yield analysis.finding(
            SCHEDULER, event.node, "When the scaler skips a step, the scheduler moves on all the same: the schedule runs ahead of the "
            "optimizer, and PyTorch warns if the very first step was skipped. A skip lowers the scale, so compare it.",
            f"scale = {scaler}.get_scale()  # before {scaler}.update()\n...\nif {scaler}.get_scale() >= scale:\n"
            f"    {analysis.line(event.node)}")


def _step_of_its_loop(analysis: Analysis, flow: Flow, event: Event) -> Optional[Event]:
    """The scaler's step in the same turn of the same loop, under no condition that the scheduler does not share."""
    script = analysis.script
    if not event.loops or event.node.args or event.node.keywords:
        return None
    loop = event.loops[-1]
    if any(loop in e.loops for e in flow.of("get_scale", "unknown")):
        return None
    for step in flow.of("step"):
        if loop not in step.loops or training_loop(analysis, flow, step) is not loop and step.loops[-1] is not loop:
            continue
        plain = [e for e in flow.of("backward") if loop in e.loops and not any(map(_asks_for_amp, e.guards))]
        if script.is_inert(step.scaler) or plain:
            continue
        shared = {decided(g.test) for g in step.guards}
        own = [g for g in event.guards if loop in g.loops and decided(g.test) not in shared]
        if any(_SKIP_WORDS & tokens(ast.unparse(g.test)) for g in event.guards):
            continue
        if all(_HARMLESS_WORDS & tokens(ast.unparse(g.test)) or _asks_for_amp(g) for g in own):
            return step
    return None


def _asks_for_amp(guard: Guard) -> bool:
    return decided(guard.test)[0] == "AMP"
