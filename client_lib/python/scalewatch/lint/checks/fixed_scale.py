"""A large loss scale that never moves."""

from __future__ import annotations

import ast
import math
from typing import Iterator, Optional

from ..analysis import Analysis, Rule
from ..finding import Finding
from ..names import path_of, tokens
from ..paths import Event

FIXED = Rule("fixed-scale", "warning", "a large loss scale that never changes")
RULES = (FIXED,)
_LARGE = 1024.0


def run(analysis: Analysis) -> Iterator[Finding]:
    script = analysis.script
    for flow in analysis.flows:
        for event in flow.of("update"):
            value = _given(event.node)
            number = None if value is None else _number(analysis, value)
            if value is not None and number is not None and number >= _LARGE and event.loops and not _is_rare(event):
                scaler = event.owner
                yield analysis.finding(
                    FIXED, event.node, f"update({ast.unparse(value)}) sets the same scale on every iteration: an overflow can't lower it, "
                    "so the same step overflows again.", f"{scaler}.update()")
        for event in flow.of("backward"):
            yield from scaled_by_hand(analysis, event)
    for path, calls in script.made_scalers.items():
        for call in calls:
            yield from _frozen(analysis, call)


def _given(call: ast.Call) -> Optional[ast.expr]:
    if call.args:
        return call.args[0]
    return next((word.value for word in call.keywords if word.arg == "new_scale"), None)


def _is_rare(event: Event) -> bool:
    """Set under a condition: a correction, not a habit."""
    return any(event.loops[-1] in guard.loops for guard in event.guards)


def _number(analysis: Analysis, node: Optional[ast.AST]) -> Optional[float]:
    """The value of a numeric literal, of simple arithmetic on them, or of a name that is bound to one only once."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.BinOp):
        left, right = _number(analysis, node.left), _number(analysis, node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Pow) and 0 < left <= 16 and abs(right) <= 64:
            return float(left**right)
        if isinstance(node.op, ast.Mult):
            return left * right
        return left * 2.0**right if isinstance(node.op, ast.LShift) and 0 <= right <= 64 else None
    path = path_of(node)
    if path is None:
        return None
    values = analysis.script.values.get(path, [])
    changed = any(isinstance(n, ast.AugAssign) and path_of(n.target) == path for n in analysis.script.nodes)
    named = isinstance(node, (ast.Name, ast.Attribute)) and len(values) == 1 and not changed
    return _number(analysis, values[0]) if named and not isinstance(values[0], (ast.Name, ast.Attribute)) else None


def scaled_by_hand(analysis: Analysis, event: Event) -> Iterator[Finding]:
    """``(loss * 65536).backward()``, or a name that was bound to such a product, in an fp16 script."""
    script = analysis.script
    if not isinstance(event.node.func, ast.Attribute) or not _is_fp16_script(analysis):
        return
    loss = event.node.func.value
    products = [loss]
    path = path_of(loss)
    if path is not None:
        products = [v for v in script.values.get(path, ()) if script.scope(v) is script.scope(event.node)]
    for product in products:
        if not (isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult)):
            continue
        for factor, other in ((product.left, product.right), (product.right, product.left)):
            number = _number(analysis, factor)
            named = path_of(factor)
            if number is None or number < _LARGE or path_of(other) is None:
                continue
            is_scale = number == 2.0**round(math.log2(number)) or named is not None and "scale" in tokens(named)
            if is_scale and any("loss" in w for w in tokens(ast.unparse(other))):
                yield analysis.finding(
                    FIXED, product, f"The loss is multiplied by {number:g} for good: what overflows at this scale overflows for ever, "
                    "and nothing raises it when gradients shrink. A GradScaler finds and follows the right scale.",
                    f"scaler = torch.amp.GradScaler('cuda')\nscaler.scale({ast.unparse(other)}).backward()\n"
                    "scaler.step(optimizer)\nscaler.update()")
                return


def _is_fp16_script(analysis: Analysis) -> bool:
    script = analysis.script
    regions = [a for a in (script.names.autocast(n) for n in script.nodes) if a is not None]
    halves = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "half" for n in script.nodes)
    types = any(script.names.dtype(n) == "fp16" for n in script.nodes if isinstance(n, (ast.Name, ast.Attribute)))
    return any(a.is_fp16 for a in regions) or halves or types


def _frozen(analysis: Analysis, call: ast.Call) -> Iterator[Finding]:
    """A GradScaler that neither grows nor backs off."""
    words = {word.arg: word.value for word in call.keywords if word.arg}
    growth, backoff = _number(analysis, words.get("growth_factor")), _number(analysis, words.get("backoff_factor"))
    if backoff is not None and backoff >= 1.0 or growth is not None and growth <= 1.0:
        name = ast.unparse(call.func)
        kept = [ast.unparse(a) for a in call.args]
        kept += [ast.unparse(w) if w.arg is None else f"{w.arg}={ast.unparse(w.value)}" for w in call.keywords
                 if w.arg not in ("growth_factor", "backoff_factor")]
        yield analysis.finding(
            FIXED, call, "A growth_factor of at most 1 or a backoff_factor of at least 1 freezes the scale; PyTorch refuses both. "
            "Leave the scale dynamic.", f"{name}({', '.join(kept)})")
