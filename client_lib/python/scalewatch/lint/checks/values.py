"""What tensor expressions inside an fp16 autocast region are made of. Shared by the checks of arithmetic by hand.

On a GPU autocast runs exp, log, pow, sum, norm, softmax and losses in fp32 and matrix products, convolutions in fp16;
everything else (division, abs, sqrt, std, mean, sigmoid, in-place forms) runs in the type of its input.
"""

from __future__ import annotations

import ast
from typing import Iterator, List, Optional, Tuple

from ..analysis import Analysis, Node
from ..names import path_of

# Adding less than half of fp16's smallest number (2^-24) to an fp16 tensor adds nothing.
LOST_IN_FP16 = 2.0**-25
_PRODUCTS = ("matmul", "mm", "bmm", "einsum", "baddbmm", "addmm", "linear", "conv1d", "conv2d", "conv3d")
_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "LazyLinear", "Bilinear")
_KEEP_TYPE = ("view", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "flatten", "contiguous", "abs", "relu", "sigmoid",
              "tanh", "gelu", "mean", "std", "var", "sqrt", "clamp", "masked_fill", "max", "amax", "t", "expand", "chunk", "half")
_NOT_TENSORS = ("np.", "numpy.", "math.", "statistics.", "random.", "jnp.", "pd.")


def expressions(analysis: Analysis) -> Iterator[Node]:
    """Every expression that runs with gradients under an enabled fp16 autocast, once."""
    seen = set()
    for flow in analysis.flows:
        for code in flow.autocast_code:
            stack: List[ast.AST] = [code]
            while stack:
                node = stack.pop()
                if id(node) in seen or isinstance(node, ast.Lambda):
                    continue
                seen.add(id(node))
                if isinstance(node, (ast.expr, ast.stmt)):
                    yield node
                stack.extend(ast.iter_child_nodes(node))


def operand(analysis: Analysis, node: ast.AST, *names: str) -> Optional[ast.expr]:
    """The tensor x of ``torch.f(x)``, ``F.f(x)`` or ``x.f()`` for f in names; None for anything else."""
    if not isinstance(node, ast.Call):
        return None
    dotted = analysis.script.names.dotted(node.func)
    if dotted.startswith(_NOT_TENSORS):
        return None
    if analysis.script.names.is_torch(node.func, *names) or dotted in tuple(f"torch.linalg.{name}" for name in names):
        return node.args[0] if node.args else None
    if isinstance(node.func, ast.Attribute) and node.func.attr in names:
        if dotted.startswith(("torch.", "F.", "nn.", "self.")) and path_of(node.func.value) in ("torch", "F", "nn", "self"):
            return None
        return node.func.value
    return None


def resolve(analysis: Analysis, node: ast.AST) -> ast.AST:
    """What a name was bound to, if the same function binds it exactly once; else the node itself."""
    path = path_of(node)
    if path is None:
        return node
    scope = analysis.script.scope(node)
    values = [v for v in analysis.script.values.get(path, ()) if analysis.script.scope(v) is scope]
    return values[0] if len(values) == 1 and _binds_once(analysis, path, scope) else node


def _binds_once(analysis: Analysis, path: str, scope: ast.AST) -> bool:
    count = 0
    for node in ast.walk(scope):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store) and path_of(node) == path:
            count += 1
    parameters = {a.arg for a in ast.walk(scope.args) if isinstance(a, ast.arg)} if hasattr(scope, "args") else set()
    return count == 1 and path not in parameters


def is_safe(analysis: Analysis, node: ast.AST, depth: int = 0) -> bool:
    """True if an expression is cast to fp32 or fp64 somewhere, or guarded by a clamp or by its maximum."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in (
                "float", "double", "float32", "float64", "clamp", "clamp_", "clamp_min", "clip", "amax", "logsumexp", "nan_to_num"):
            return True
        if isinstance(part, ast.Constant) and part.value in ("float32", "float64"):
            return True
        if isinstance(part, (ast.Name, ast.Attribute)):
            if "max" in (path_of(part) or "").lower().replace("softmax", ""):
                return True
            if depth < 3:
                value = resolve(analysis, part)
                if value is not part and is_safe(analysis, value, depth + 1):
                    return True
    return False


def is_fp16(analysis: Analysis, node: ast.AST, depth: int = 0) -> bool:
    """True only if the value is plainly fp16 under autocast: it comes out of a matrix product or a convolution."""
    if depth > 5:
        return False
    script = analysis.script
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.MatMult):
            return True
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if is_fp16(analysis, one, depth + 1) and (_is_scalar(other) or is_fp16(analysis, other, depth + 1)):
                return not isinstance(node.op, ast.Pow)
        return False
    if isinstance(node, ast.UnaryOp):
        return is_fp16(analysis, node.operand, depth + 1)
    if isinstance(node, ast.Subscript):
        return is_fp16(analysis, node.value, depth + 1)
    if isinstance(node, ast.Call):
        if operand(analysis, node, *_PRODUCTS) is not None:
            return not is_safe(analysis, node)
        inner = operand(analysis, node, *_KEEP_TYPE)
        if inner is not None:
            return is_fp16(analysis, inner, depth + 1)
        layer = path_of(node.func)
        made = script.values.get(layer or "", ())
        return bool(made) and all(
            isinstance(v, ast.Call) and script.names.dotted(v.func).rsplit(".", 1)[-1] in _LAYERS for v in made)
    value = resolve(analysis, node)
    return value is not node and is_fp16(analysis, value, depth + 1)


def _is_scalar(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return True
    path = path_of(node) or (path_of(node.func) or "" if isinstance(node, ast.Call) else "")
    return path.startswith("math.") or path.rsplit(".", 1)[-1] in ("scale", "temperature", "tau", "head_dim", "dim")


def split_eps(node: ast.AST) -> Tuple[ast.AST, Optional[float]]:
    """``x + 1e-8`` as (x, 1e-8); anything else as (node, None). A named epsilon gives NaN: there, of unknown size."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(other, ast.Constant) and isinstance(other.value, (int, float)):
                return one, float(other.value)
            if path_of(other) and "eps" in (path_of(other) or "").lower():
                return one, float("nan")
    return node, None


def same(one: ast.AST, other: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(other)
