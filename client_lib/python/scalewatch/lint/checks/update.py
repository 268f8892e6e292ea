"""scaler.update(): missing, late, twice, or before the step that it belongs to."""

from __future__ import annotations

import ast
import re
from typing import Dict, Iterator, Optional, Set, Tuple

from ..analysis import Analysis, Rule, Verdict
from ..finding import Finding
from ..flow import Flow
from ..names import path_of
from ..paths import Event, Path

MISSING = Rule("missing-update", "error", "scaler.step() without scaler.update()")
LATE = Rule("late-update", "error", "scaler.update() outside the loop that steps")
DOUBLE = Rule("double-update", "error", "scaler.update() twice after one step")
EARLY = Rule("update-before-step", "error", "scaler.update() between a scaled backward pass and its step")
RULES = (MISSING, LATE, DOUBLE, EARLY)
_WORD = re.compile(r"[A-Za-z_]\w*")


def run(analysis: Analysis) -> Iterator[Finding]:
    yield from _missing_or_late(analysis)
    for event, _ in analysis.always(_double):
        yield analysis.finding(
            DOUBLE, event.node, "A second update() with no step before it: PyTorch raises 'No inf checks were recorded', "
            "and where something was recorded the growth interval is counted twice.",
            f"# remove: {analysis.line(event.node)}")
    for event, step in analysis.always(_early):
        scaler = event.owner
        yield analysis.finding(
            EARLY, event.node, f"update() changes the scale and forgets which gradients overflowed, and {ast.unparse(step.node)} "
            f"comes after it: those gradients are divided by another scale than they were multiplied by. "
            "Update once an iteration, after the last step.", f"{ast.unparse(step.node)}\n{scaler}.update()")


def _missing_or_late(analysis: Analysis) -> Iterator[Finding]:
    updates_anywhere = any(True for flow in analysis.flows for _ in flow.of("update"))
    unsure_anywhere = any(True for flow in analysis.flows for _ in flow.of("unknown"))
    wrong: Dict[Tuple[int, int], Tuple[Rule, Event, Event]] = {}
    right: Set[Tuple[int, int]] = set()
    for flow in analysis.flows:
        for step in flow.of("step"):
            loop = training_loop(analysis, flow, step)
            within = [e for e in flow.of("update", "unknown") if loop is None or loop in e.loops]
            outside = [e for e in flow.of("update") if e not in within and e.scaler == step.scaler]
            if any(e.kind == "unknown" or e.scaler == step.scaler for e in within):
                right.add(step.at)
            elif loop is not None and outside:
                wrong[step.at] = (LATE, step, outside[0])
            elif not updates_anywhere and not unsure_anywhere and _is_whole(analysis, flow, step):
                wrong.setdefault(step.at, (MISSING, step, step))
    for at, (rule, step, update) in sorted(wrong.items()):
        if at in right or analysis.script.is_inert(step.scaler):
            continue
        scaler = step.owner
        fix = f"{analysis.line(step.node)}\n{scaler}.update()"
        if rule is LATE:
            yield analysis.finding(
                LATE, update.node, f"The loop of line {step.node.lineno} steps without update(): the second step of an optimizer "
                "between two updates raises, and the scale follows the overflows too late. Update right after the steps, in the "
                "same loop.", fix)
        else:
            yield analysis.finding(
                MISSING, step.node, "Nothing ever calls update(): the scale never moves, an overflow is met again and again, and "
                "PyTorch raises at the next step or unscale_ of this optimizer.", fix)


def training_loop(analysis: Analysis, flow: Flow, step: Event) -> Optional[ast.AST]:
    """The innermost loop around a step that also holds a backward pass of its scaler. A loop that runs over the optimizers
    themselves is a part of one iteration and does not count."""
    values = analysis.script.values.get(step.target, ())
    optimizer = set(_WORD.findall(step.target)).union(*(_WORD.findall(ast.unparse(value)) for value in values))
    for loop in reversed(step.loops):
        targets = [c.target for c in getattr(loop, "generators", ())] or [getattr(loop, "target", None)]
        if optimizer & {n.id for target in targets if target is not None for n in ast.walk(target) if isinstance(n, ast.Name)}:
            continue
        if any(loop in e.loops for e in flow.of("scaled_backward") if e.scaler == step.scaler):
            return loop
    return None


def _is_whole(analysis: Analysis, flow: Flow, step: Event) -> bool:
    """True if the script shows enough of the training to say that nobody else updates this scaler."""
    has_backward = any(e.scaler == step.scaler for e in flow.of("scaled_backward"))
    if not has_backward or not analysis.script.is_made(step.scaler):
        return False
    # `finish = scaler.update`, or an object that is handed to a library.
    mentions = (n for n in analysis.script.nodes if isinstance(n, ast.Attribute) and n.attr == "update")
    return not any(analysis.script.is_scaler(path_of(n.value)) for n in mentions)


def _double(path: Path) -> Iterator[Verdict]:
    for number, event in enumerate(path):
        if event.kind != "update":
            continue
        for before in reversed(path[:number]):
            if before.scaler == event.scaler and before.kind in ("step", "unscale", "scaled_backward") or before.kind == "unknown":
                yield event, False, None
                break
            if before.kind == "update" and before.scaler == event.scaler:
                # With a value update() sets the scale by hand, and needs no step.
                yield event, not event.node.args and not event.node.keywords, None
                break


def _early(path: Path) -> Iterator[Verdict]:
    for number, event in enumerate(path):
        if event.kind != "step":
            continue
        for place in range(number - 1, -1, -1):
            before = path[place]
            if before.kind == "unknown" or before.kind == "scaled_backward" and before.scaler == event.scaler:
                for update in path[:number]:
                    if update.kind == "update" and update.scaler == event.scaler:
                        yield update, False, None
                break
            if before.kind == "update" and before.scaler == event.scaler:
                # From a loop that the step stands behind, later turns bring other gradients.
                if set(before.loops) - set(event.loops):
                    break
                if any(e.kind == "scaled_backward" and e.scaler == event.scaler for e in path[:place]):
                    yield before, True, event
                break
