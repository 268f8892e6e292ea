"""log() of a probability by hand inside fp16 autocast."""

from __future__ import annotations

import ast
from typing import Iterator, Optional, Tuple

from ..analysis import Analysis, Rule
from ..finding import Finding
from .exp import one_plus_exp
from .values import LOST_IN_FP16, expressions, is_safe, operand, resolve, split_eps

LOG = Rule("log-in-autocast", "warning", "log() by hand inside autocast: log(0) is -Inf")
RULES = (LOG,)


def run(analysis: Analysis) -> Iterator[Finding]:
    for node in expressions(analysis):
        argument = operand(analysis, node, "log")
        if argument is None:
            continue
        found = _judge(analysis, argument)
        if found is not None:
            yield analysis.finding(LOG, node, *found)


def _judge(analysis: Analysis, argument: ast.AST) -> Optional[Tuple[str, str]]:
    body, eps = split_eps(argument)
    if eps is not None and eps == 1.0:
        inner = one_plus_exp(analysis, argument)
        if inner is not None and not is_safe(analysis, inner):
            return "A softplus by hand: exp() overflows and its gradient is Inf / Inf, NaN.", f"F.softplus({ast.unparse(inner)})"
        return None
    body = resolve(analysis, body)
    has_eps = eps is not None and not (eps == eps and abs(eps) < LOST_IN_FP16)
    if has_eps or is_safe(analysis, argument):
        return None
    complement = isinstance(body, ast.BinOp) and isinstance(body.op, ast.Sub) and isinstance(body.left, ast.Constant) and (
        body.left.value == 1)
    probability = resolve(analysis, body.right) if isinstance(body, ast.BinOp) and complement else body
    logits = operand(analysis, probability, "sigmoid")
    if logits is not None:
        sign = "-" if complement else ""
        lost = "" if eps is None else f" ({eps:g} rounds to 0 in fp16)"
        return ("sigmoid() gives fp16 here, which reaches exactly 0 and 1 within |x| < 18, and the log of 0 is -Inf"
                f"{lost}. Work on the logits.", f"F.logsigmoid({sign}({ast.unparse(logits)}).float())")
    logits = operand(analysis, probability, "softmax")
    if logits is not None and eps is None:
        if complement:
            return ("A probability of 1 gives log(0), -Inf, and its gradient NaN.",
                    f"torch.log1p(-{ast.unparse(probability)}.float().clamp(max=1 - 1e-6))")
        return ("softmax() rounds small probabilities to 0, and the log of 0 is -Inf. log_softmax never forms them.",
                f"F.log_softmax(({ast.unparse(logits)}).float(), dim=-1)")
    total = operand(analysis, body, "sum")
    exponent = operand(analysis, resolve(analysis, total), "exp") if total is not None else None
    if exponent is not None and not is_safe(analysis, exponent):
        return ("A log of a sum of exp() by hand: one large input makes the sum Inf.",
                f"torch.logsumexp(({ast.unparse(exponent)}).float(), dim=-1)")
    return None
