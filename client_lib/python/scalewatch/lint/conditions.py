"""When two conditions of a script ask the same."""

from __future__ import annotations

import ast
from typing import Tuple

from .names import path_of, tokens

_AMP_WORDS = {"amp", "fp16", "half", "mixed", "autocast", "precision", "float16"}


def decided(test: ast.expr) -> Tuple[str, bool]:
    """A condition as (atom, polarity): tests with one meaning have one atom, all that ask for mixed precision share AMP."""
    holds = True
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None or isinstance(right, ast.Constant) and isinstance(right.value, bool):
            if isinstance(test.ops[0], (ast.Is, ast.Eq, ast.IsNot, ast.NotEq)):
                negated = isinstance(test.ops[0], (ast.IsNot, ast.NotEq)) != (right.value is True)
                atom, polarity = decided(test.left)
                # `x is None` and `x == False` deny x.
                return atom, (polarity == negated) == holds
        opposite = {ast.NotEq: ast.Eq, ast.NotIn: ast.In, ast.IsNot: ast.Is}.get(type(test.ops[0]))
        if opposite:
            same = ast.Compare(test.left, [opposite()], test.comparators)
            return ast.unparse(same), not holds
    elif _asks_for_amp(test):
        return "AMP", holds
    return ast.unparse(test), holds


def _asks_for_amp(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):  # `args.amp and scaler`: one question, asked twice
        return all(map(_asks_for_amp, test.values))
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot) and path_of(test.comparators[0]) is None:
        return isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None and _asks_for_amp(test.left)
    if isinstance(test, ast.Subscript) and isinstance(test.slice, ast.Constant) and isinstance(test.slice.value, str):
        return bool(_AMP_WORDS & tokens(test.slice.value))  # config["training"]["use_amp"]
    if isinstance(test, ast.Call):
        test = test.func
    path = path_of(test)
    return path is not None and any(w in _AMP_WORDS or w.endswith("scaler") for w in tokens(path))
