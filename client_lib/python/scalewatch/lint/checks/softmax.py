"""A softmax by hand inside fp16 autocast."""

from __future__ import annotations

import ast
from typing import Iterator, Optional

from ..analysis import Analysis, Rule
from ..finding import Finding
from .values import expressions, is_safe, operand, resolve, same, split_eps

SOFTMAX = Rule("softmax-in-autocast", "warning", "softmax by hand inside autocast, without the maximum subtracted")
RULES = (SOFTMAX,)


def run(analysis: Analysis) -> Iterator[Finding]:
    for node in expressions(analysis):
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
            continue
        logits = _logits(analysis, node)
        if logits is None or is_safe(analysis, logits):
            continue
        yield analysis.finding(
            SOFTMAX, node, "A softmax by hand: without its maximum subtracted, one large logit makes exp() and the sum Inf, and Inf / Inf "
            "is NaN. softmax() subtracts it and runs in fp32.", f"torch.softmax(({ast.unparse(logits)}).float(), dim=-1)")


def _logits(analysis: Analysis, division: ast.BinOp) -> Optional[ast.expr]:
    """x of ``exp(x) / exp(x).sum(...)``, also where a name stands for exp(x) or for the sum."""
    above = operand(analysis, resolve(analysis, division.left), "exp")
    if above is None:
        return None
    below, _ = split_eps(division.right)
    total = operand(analysis, resolve(analysis, split_eps(resolve(analysis, below))[0]), "sum")
    if total is None:
        return None
    beneath = operand(analysis, resolve(analysis, total), "exp")
    return above if beneath is not None and same(above, beneath) else None
