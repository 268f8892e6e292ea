"""A checkpoint that holds the optimizer and forgets the scaler."""

from __future__ import annotations

import ast
from typing import Iterator, List, Optional, Tuple

from ..analysis import Analysis, Rule
from ..finding import Finding
from ..names import path_of, tokens
from ..script import FRAMEWORKS

NOT_SAVED = Rule("scaler-not-saved", "warning", "a checkpoint with the optimizer's state and without the scaler's")
RULES = (NOT_SAVED,)
_MODEL = {"model", "net", "network", "ema", "weights", "module"}
_SAVING = {"save", "checkpoint", "ckpt", "checkpointer", "snapshot"}
_WHOLE = {"self", "trainer", "state", "engine", "accelerator", "strategy", "runner", "learner", "kwargs"}
_RESUME = "after a resume the scale starts at 65536 again and the first steps are skipped until it has found its place."


def run(analysis: Analysis) -> Iterator[Finding]:
    script = analysis.script
    live = [path for path in script.made_scalers if not script.is_inert(path)]
    used = any(True for flow in analysis.flows for _ in flow.of("step"))
    if not live or not used or script.only_bf16 or script.names.imports(*FRAMEWORKS) or _saves_a_scaler(analysis):
        return
    for node in script.nodes:
        if isinstance(node, ast.Call) and _is_given_all_else(analysis, node):
            scaler = _nearest(analysis, node, live)
            yield analysis.finding(
                NOT_SAVED, node, f"This checkpoint is given the optimizer but not {scaler}: {_RESUME}",
                f"{ast.unparse(node.func)}(..., {scaler}.state_dict())")
            continue
        items = _items(node)
        optimizer = next((value for _, value in items if _is_state(analysis, value)), None)
        model = any(_MODEL & tokens(name) or _state_of(value) and not _is_state(analysis, value) for name, value in items)
        if optimizer is None or not model or not _is_saved(analysis, node):
            continue
        scaler = _nearest(analysis, node, live)
        yield analysis.finding(
            NOT_SAVED, optimizer, f"This checkpoint restores the optimizer but not {scaler}: {_RESUME}",
            f'{analysis.line(optimizer)}\n"scaler": {scaler}.state_dict(),')


def _is_given_all_else(analysis: Analysis, call: ast.Call) -> bool:
    """``save_checkpoint(path, model, optimizer, ...)`` of another file: what it is not given it can't save."""
    script = analysis.script
    name = script.names.dotted(call.func) or ast.unparse(call.func)
    values = [*call.args, *(word.value for word in call.keywords)]
    paths = [path_of(n) for value in values for n in ast.walk(value) if isinstance(n, (ast.Name, ast.Attribute))]
    whole = any(isinstance(value, ast.Starred) for value in call.args) or any(word.arg is None for word in call.keywords)
    last = name.rsplit(".", 1)[-1]
    if not _SAVING & tokens(last) or last[:1].isupper() or _WHOLE & tokens(name) or name.startswith("torch."):
        return False
    if whole or script.origins.function(call) is not None or any(_WHOLE & {path} for path in paths if path):
        return False
    given = [path for value in values for path in [path_of(value)] if path]
    return any(map(script.is_optimizer, given)) and any(_MODEL & tokens(path.rsplit(".", 1)[-1]) for path in paths if path)


def _items(node: ast.AST) -> List[Tuple[str, ast.expr]]:
    """The (key, value) pairs of a dict display or of ``dict(...)``, in order; keys that are no literals are empty."""
    if isinstance(node, ast.Dict):
        return [(str(k.value) if isinstance(k, ast.Constant) else "", v) for k, v in zip(node.keys, node.values)]
    if isinstance(node, ast.Call) and path_of(node.func) == "dict" and not node.args:
        return [(word.arg or "", word.value) for word in node.keywords]
    return []


def _is_state(analysis: Analysis, value: ast.expr) -> bool:
    """True for the state of an optimizer."""
    path = _state_of(value)
    return bool(path) and analysis.script.is_optimizer(path)


def _state_of(value: ast.AST) -> Optional[str]:
    """The path of X in ``X.state_dict()``."""
    if isinstance(value, ast.IfExp):
        return _state_of(value.body) or _state_of(value.orelse)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "state_dict":
        return path_of(value.func.value) or ("" if not isinstance(value.func.value, ast.Call) else ast.unparse(value.func.value))
    return None


def _saves_a_scaler(analysis: Analysis) -> bool:
    script = analysis.script
    for node in script.nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("state_dict", "load_state_dict"):
            path = path_of(node.value)
            if path is None or any(word.endswith("scaler") for word in tokens(path)) or script.is_scaler(path):
                return path is not None or _hides_the_object(node)
        # An object that is handed over whole may be saved by whoever gets it.
        if isinstance(node, ast.Dict) and any(script.is_scaler(path_of(v)) for v in node.values if v is not None):
            return True
        if isinstance(node, ast.Call) and _SAVING & tokens(ast.unparse(node.func)):
            if any(script.is_scaler(path_of(v)) for v in [*node.args, *(w.value for w in node.keywords)]):
                return True
    return False


def _hides_the_object(node: ast.Attribute) -> bool:
    return any(word.endswith("scaler") for word in tokens(ast.unparse(node.value)))


def _is_saved(analysis: Analysis, node: ast.AST) -> bool:
    """True if a dict goes into a call whose name says that it saves, directly or through one name, unchanged."""
    script = analysis.script
    up = script.parents.get(node)
    while up is not None and not isinstance(up, ast.stmt):
        if isinstance(up, ast.Call) and _SAVING & tokens(script.names.dotted(up.func) or ast.unparse(up.func)):
            return True
        up = script.parents.get(up)
    if not isinstance(up, (ast.Assign, ast.AnnAssign)) or up.value is not node:
        return False
    target = path_of(up.targets[0] if isinstance(up, ast.Assign) else up.target)
    scope, saved = script.scope(node), False
    for other in ast.walk(scope):
        if isinstance(other, ast.Subscript) and path_of(other.value) == target and isinstance(other.ctx, ast.Store):
            return False  # more is put into it
        if isinstance(other, ast.Call):
            name = script.names.dotted(other.func) or ""
            if name == f"{target}.update":
                return False
            if _SAVING & tokens(name) and any(path_of(v) == target for v in [*other.args, *(w.value for w in other.keywords)]):
                saved = True
    return saved


def _nearest(analysis: Analysis, node: ast.AST, live: List[str]) -> str:
    """The scaler that the code at a node can name, or else the one that has to be handed to it."""
    script = analysis.script
    scope = script.scope(node)
    near = [path for path in live if any(script.scope(v) in (scope, script.tree) for v in script.values.get(path, ()))]
    own = [path for path in live if path.startswith("self.") and script.class_of(scope) is not None]
    return sorted(near or own or live)[0]
