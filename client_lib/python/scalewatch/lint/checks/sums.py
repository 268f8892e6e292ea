"""Long sums and squares by hand in fp16."""

from __future__ import annotations

import ast
from typing import Iterator, Optional, Tuple

from ..analysis import Analysis, Node, Rule
from ..finding import Finding
from ..names import path_of
from .values import expressions, is_fp16, is_safe, operand, same

SUMS = Rule("sum-in-autocast", "warning", "a long sum or a sum of squares by hand in fp16")
RULES = (SUMS,)
_REDUCTIONS = ("sum", "mean", "cumsum", "prod")


def run(analysis: Analysis) -> Iterator[Finding]:
    for node in expressions(analysis):
        yield from _squares(analysis, node)
        yield from _narrow(analysis, node)
        if isinstance(node, (ast.AugAssign, ast.Assign)):
            yield from _loop(analysis, node)


def _squares(analysis: Analysis, node: Node) -> Iterator[Finding]:
    inner = operand(analysis, node, "sum", "mean")
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult) and same(inner.left, inner.right):
        if is_fp16(analysis, inner.left) and not is_safe(analysis, inner):
            tensor = ast.unparse(inner.left)
            yield analysis.finding(
                SUMS, node, "The product runs in fp16 before it is summed: a value above 255.9 squares to Inf, one under 0.00017 to 0.",
                ast.unparse(node).replace(ast.unparse(inner), f"{tensor}.float().square()"))


def _narrow(analysis: Analysis, node: Node) -> Iterator[Finding]:
    if not isinstance(node, ast.Call) or operand(analysis, node, *_REDUCTIONS) is None:
        return
    word = next((w for w in node.keywords if w.arg == "dtype" and analysis.script.names.dtype(w.value) == "fp16"), None)
    if word is not None:
        yield analysis.finding(
            SUMS, node, "A sum in fp16: above 2048 it no longer counts single ones, above 65504 it is Inf. Autocast would take fp32.",
            ast.unparse(node).replace(f"dtype={ast.unparse(word.value)}", "dtype=torch.float32"))


def _loop(analysis: Analysis, node: ast.stmt) -> Iterator[Finding]:
    """``total += x[:, t]`` for every t, or the same of products that autocast computes in fp16."""
    target, term = _added(node)
    if target is None or term is None:
        return
    up = analysis.script.parents.get(node)
    while up is not None and not isinstance(up, ast.For):
        if isinstance(up, (ast.stmt,)) and not isinstance(up, (ast.If, ast.With)):
            return
        up = analysis.script.parents.get(up)
    if up is None or path_of(up.target) is None or is_safe(analysis, node):
        return
    index = path_of(up.target)
    is_slice = isinstance(term, ast.Subscript) and isinstance(term.slice, ast.Tuple) and any(
        isinstance(part, ast.Slice) for part in term.slice.elts) and any(path_of(p) == index for p in term.slice.elts)
    if is_slice or is_fp16(analysis, term) and any(path_of(n) == index for n in ast.walk(term)):
        name = path_of(target)
        yield analysis.finding(
            SUMS, node, f"{name} is summed up by hand, in the type of its terms: in fp16 every addition rounds to 11 bits, and past 65504 "
            "the sum is Inf. sum() adds in fp32.", f"{name} = {name} + ({ast.unparse(term)}).float()")


def _added(node: ast.stmt) -> Tuple[Optional[ast.expr], Optional[ast.expr]]:
    """(total, term) of ``total += term`` and ``total = total + term``."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and path_of(node.target):
        return node.target, node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp) and isinstance(
            node.value.op, ast.Add) and path_of(node.targets[0]) and path_of(node.targets[0]) == path_of(node.value.left):
        return node.targets[0], node.value.right
    return None, None
