"""Gradient accumulation: unscale_, step and update belong to the last micro-batch only."""

from __future__ import annotations

import ast
from typing import Dict, Iterator, List, Optional, Set, Tuple

from ..analysis import Analysis, Rule
from ..finding import Finding
from ..flow import Flow
from ..names import path_of, tokens
from ..paths import Event, Guard
from .update import training_loop

UNSCALE = Rule("unscale-off-boundary", "error", "unscale_() on every micro-batch, step only on the last")
STEP = Rule("step-off-boundary", "error", "step on every micro-batch, gradients cleared only on the last")
UPDATE = Rule("update-off-boundary", "error", "update() on every micro-batch, step only on the last")
RULES = (UNSCALE, STEP, UPDATE)
_BOUNDARY_WORDS = {"accum", "accumulate", "accumulation", "accumulating", "boundary", "sync"}
# An event, the rule that it breaks if it breaks one, and the boundary's condition.
_Verdict = Tuple[Event, Optional[Rule], Optional[Guard]]


def run(analysis: Analysis) -> Iterator[Finding]:
    wrong: Dict[Tuple[int, int], Tuple[Event, Rule, Guard]] = {}
    right: Set[Tuple[int, int]] = set()
    for flow in analysis.flows:
        for event, rule, guard in _judge(analysis, flow):
            if rule is None:
                right.add(event.at)
            elif guard is not None:
                wrong.setdefault(event.at, (event, rule, guard))
    for at, (event, rule, guard) in sorted(wrong.items()):
        if at in right:
            continue
        test = ast.unparse(guard.test if guard.holds else ast.UnaryOp(ast.Not(), guard.test))
        fix = f"if {test}:\n    {analysis.line(event.node)}"
        why = {
            UNSCALE: "unscale_() runs on every micro-batch but the step only on the last: PyTorch raises at the second call, and the "
                     "gradients that come after would be added, still scaled, to unscaled ones.",
            STEP: "The optimizer steps on every micro-batch while the gradients are cleared only on the last: each one is applied "
                  "several times.",
            UPDATE: "update() runs on every micro-batch but the step only on the last: PyTorch raises 'No inf checks were recorded', "
                    "and the scale must not change between backward passes whose gradients are added.",
        }[rule]
        yield analysis.finding(rule, event.node, why, fix)


def _judge(analysis: Analysis, flow: Flow) -> Iterator[_Verdict]:
    if any(True for _ in flow.of("unknown")):
        return
    for step in flow.of("step"):
        loop = training_loop(analysis, flow, step)
        if loop is None:
            continue
        steps = [e for e in flow.of("step") if e.scaler == step.scaler and loop in e.loops]
        boundary = _boundary(analysis, step, loop)
        if boundary is None:
            yield from _judge_step(analysis, flow, step, loop)
            continue
        all_guarded = all(_boundary(analysis, e, loop) for e in steps)
        for event in flow.of("unscale"):
            if event.scaler == step.scaler and event.target == step.target and loop in event.loops:
                alone = all(_boundary(analysis, e, loop) for e in steps if e.target == step.target)
                bad = alone and _is_plain(analysis, event, loop)
                yield event, UNSCALE if bad else None, boundary
        if all_guarded and not any(loop in e.loops and _is_plain(analysis, e, loop) for e in flow.of("unscale")):
            for event in flow.of("update"):
                if event.scaler == step.scaler and loop in event.loops:
                    yield event, UPDATE if _is_plain(analysis, event, loop) else None, boundary


def _judge_step(analysis: Analysis, flow: Flow, step: Event, loop: ast.AST) -> Iterator[_Verdict]:
    if not _is_plain(analysis, step, loop):
        return
    clears = [e for e in flow.of("zero_grad") if loop in e.loops]
    guards = [_boundary(analysis, e, loop) for e in clears]
    if clears and all(guards):
        yield step, STEP, guards[0]
    else:
        yield step, None, None


def _within(event: Event, loop: ast.AST) -> List[Guard]:
    return [guard for guard in event.guards if loop in guard.loops]


def _boundary(analysis: Analysis, event: Event, loop: ast.AST) -> Optional[Guard]:
    """The condition inside the loop that lets an event happen on the last micro-batch only."""
    return next((g for g in _within(event, loop) if _counts(analysis, g.test)), None)


def _is_plain(analysis: Analysis, event: Event, loop: ast.AST) -> bool:
    """True if an event happens on every turn of the loop, apart from conditions that a run never changes."""
    return all(_is_fixed(g.test) and not _counts(analysis, g.test) for g in _within(event, loop))


def _is_fixed(test: ast.expr) -> bool:
    """A switch such as ``args.clip``, ``clip_norm > 0``, ``scaler is not None``."""
    if isinstance(test, ast.BoolOp):
        return all(map(_is_fixed, test.values))
    if isinstance(test, ast.UnaryOp):
        return _is_fixed(test.operand)
    if isinstance(test, ast.Compare):
        return path_of(test.left) is not None and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant)
    return path_of(test.func if isinstance(test, ast.Call) and not test.args else test) is not None


def _counts(analysis: Analysis, test: ast.expr, depth: int = 0) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return True
        path = path_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if path is None:
            continue
        if _BOUNDARY_WORDS & tokens(path):
            return True
        if depth < 2 and any(_counts(analysis, value, depth + 1) for value in analysis.script.values.get(path, ())
                             if isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp))):
            return True
    return False
