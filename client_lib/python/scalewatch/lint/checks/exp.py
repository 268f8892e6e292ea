"""exp() by hand inside fp16 autocast."""

from __future__ import annotations

import ast
from typing import Iterator, Optional

from ..analysis import Analysis, Rule
from ..finding import Finding
from .values import expressions, is_fp16, is_safe, operand

EXP = Rule("exp-in-autocast", "warning", "exp() by hand inside autocast: overflows to Inf")
RULES = (EXP,)


def run(analysis: Analysis) -> Iterator[Finding]:
    for node in expressions(analysis):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "exp_" and not node.args:
            if is_fp16(analysis, node.func.value):
                tensor = ast.unparse(node.func.value)
                yield analysis.finding(
                    EXP, node, "Autocast does not widen in-place operations: exp_() of an fp16 tensor is Inf above 11.09.",
                    f"{tensor} = {tensor}.float().exp()")
        inner = operand(analysis, node, "exp")
        if inner is not None and is_fp16(analysis, inner) and not is_safe(analysis, inner) and not _is_in_known_form(analysis, node):
            yield analysis.finding(
                EXP, node, "exp() of a product that autocast computed in fp16, without its maximum subtracted: the product is already "
                "rounded to 11 bits, and exp() is Inf above 88 (above 11.09 where it is cast back to fp16).",
                f"x = ({ast.unparse(inner)}).float()\nx = torch.exp(x - x.amax(dim=-1, keepdim=True))")
        logit = _sigmoid_input(analysis, node)
        if logit is not None:
            yield analysis.finding(
                EXP, node, "A sigmoid by hand: exp() overflows for large negative inputs and its gradient is then Inf / Inf, NaN.",
                f"torch.sigmoid({ast.unparse(logit)})")
        cast = _cast_to_half(analysis, node)
        if cast is not None:
            yield analysis.finding(
                EXP, node, "exp() is cast to fp16 here: anything above exp(11.09) becomes Inf.", ast.unparse(cast))


def _is_in_known_form(analysis: Analysis, node: ast.AST) -> bool:
    """True where exp() stands in a softmax, sigmoid or log that another check reports."""
    up = analysis.script.parents.get(node)
    while up is not None and not isinstance(up, ast.stmt):
        if isinstance(up, ast.BinOp) and isinstance(up.op, ast.Div) or operand(analysis, up, "log", "log1p") is not None:
            return True
        up = analysis.script.parents.get(up)
    return False


def one_plus_exp(analysis: Analysis, node: ast.AST) -> Optional[ast.expr]:
    """x of ``1 + exp(x)``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, ast.Constant) and one.value == 1:
                return operand(analysis, other, "exp")
    return None


def _sigmoid_input(analysis: Analysis, node: ast.AST) -> Optional[ast.expr]:
    """x of ``1 / (1 + exp(-x))``."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        return None
    if not (isinstance(node.left, ast.Constant) and node.left.value == 1):
        return None
    inner = one_plus_exp(analysis, node.right)
    negated = isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.USub) and not is_safe(analysis, inner)
    return inner.operand if negated and isinstance(inner, ast.UnaryOp) else None


def _cast_to_half(analysis: Analysis, node: ast.AST) -> Optional[ast.expr]:
    """``torch.exp(x)`` of ``torch.exp(x).half()``."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    inner = node.func.value
    exponent = operand(analysis, inner, "exp")
    if exponent is None or is_safe(analysis, exponent):
        return None
    to_half = node.func.attr == "half" or node.func.attr == "to" and any(
        analysis.script.names.dtype(a) == "fp16" for a in [*node.args, *(w.value for w in node.keywords)])
    return inner if to_half else None
