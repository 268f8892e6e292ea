"""Division by a value that can be 0 in fp16."""

from __future__ import annotations

import ast
from typing import Iterator, Optional, Tuple

from ..analysis import Analysis, Rule
from ..finding import Finding
from .values import LOST_IN_FP16, expressions, is_fp16, is_safe, operand, resolve, split_eps

DIVISION = Rule("division-in-autocast", "warning", "division inside autocast by a value that can be 0 in fp16")
RULES = (DIVISION,)
# Not widened by autocast: on fp16 input their result is fp16.
_NARROW = ("std", "var", "mean", "abs", "max", "amax", "sqrt", "sigmoid", "relu", "median")


def run(analysis: Analysis) -> Iterator[Finding]:
    for node in expressions(analysis):
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
            continue
        found = _judge(analysis, node)
        if found is not None:
            yield analysis.finding(DIVISION, node, *found)


def _judge(analysis: Analysis, division: ast.BinOp) -> Optional[Tuple[str, str]]:
    above = ast.unparse(division.left)
    below = resolve(analysis, division.right)
    root = operand(analysis, below, "sqrt")
    inner, eps = split_eps(resolve(analysis, root) if root is not None else below)
    if is_safe(analysis, division.right) or is_safe(analysis, below):
        return None
    tensor = resolve(analysis, inner)
    text = ast.unparse(inner)
    if eps is not None and eps == eps and 0 < eps < LOST_IN_FP16:
        if operand(analysis, tensor, *_NARROW) is not None or is_fp16(analysis, tensor):
            whole = f"torch.sqrt(({text}).float() + {eps:g})" if root is not None else f"(({text}).float() + {eps:g})"
            return (f"{eps:g} rounds to 0 in fp16, so it does not keep this divisor from being 0: x / 0 is Inf, 0 / 0 NaN. Divide in "
                    "fp32, or use at least 1e-6.", f"{above} / {whole}")
        return None
    if eps is not None:
        return None
    vector = operand(analysis, tensor, "norm", "vector_norm")
    if vector is not None:
        return ("The norm of a vector that is (or rounds to) 0 is 0: 0 / 0 is NaN. F.normalize guards it.",
                f"F.normalize(({ast.unparse(vector)}).float(), dim=-1, eps=1e-6)")
    if operand(analysis, tensor, "std") is not None:
        return ("A spread of 0 divides by 0, and in fp16 small deviations round to it. Add an epsilon, in fp32.",
                f"{above} / (({text}).float() + 1e-6)")
    return None
