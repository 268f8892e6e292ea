"""A model cast to fp16 whose gradients a GradScaler is to unscale."""

from __future__ import annotations

import ast
from typing import Iterator, List, Set, Tuple

from ..analysis import Analysis, Rule
from ..finding import Finding
from ..names import path_of, tokens
from ..script import FRAMEWORKS, FUNCTIONS, Script

HALF = Rule("fp16-parameters", "error", "model.half() with a GradScaler")
RULES = (HALF,)
_OTHER_WORK = {"val", "valid", "validate", "validation", "eval", "evaluate", "test", "infer", "inference", "predict", "export", "save",
               "benchmark", "generate", "sample", "demo"}
_PARTS_ONLY = {"lora", "peft", "adapter", "adapters", "qlora", "freeze", "frozen"}


def run(analysis: Analysis) -> Iterator[Finding]:
    script = analysis.script
    steps = [e for flow in analysis.flows for e in flow.of("step") if not script.is_inert(e.scaler)]
    if not steps or not script.made_scalers or script.names.imports(*FRAMEWORKS) or _PARTS_ONLY & script.words:
        return
    trained = _trained(analysis)
    for node in script.nodes:
        if not isinstance(node, ast.Call):
            continue
        model = next((path for path in _halved(analysis, node) if path in trained), None)
        if model is None or not _always_runs(analysis, node) or _is_restored(analysis, model):
            continue
        if _after_training(script, node, {e.at for e in steps}):
            continue
        fix = analysis.line(node).replace(".half()", "")
        fix = f"# remove: {fix}" if fix in (model, f"{model} = {model}") or fix == analysis.line(node) else fix
        yield analysis.finding(
            HALF, node, f"The parameters of {model} and so their gradients become fp16: GradScaler keeps no fp32 copy, raises "
            "'Attempting to unscale FP16 gradients', and updates under 2^-11 of a weight would be lost. Keep the model in fp32; "
            "autocast casts what it computes.", fix)


def _trained(analysis: Analysis) -> Set[str]:
    """The models whose ``.parameters()`` an optimizer is given, or the clipping of gradients; or that are told to ``.train()``."""
    script = analysis.script
    found = set()
    for call in script.nodes:
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Attribute) and call.func.attr == "train" and not call.args and not call.keywords:
            found.add(path_of(call.func.value) or "")
        name = path_of(call.func) or ""
        given = call.args[0] if call.args and "clip_grad" in name else None
        if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "parameters":
            found.add(path_of(given.func.value) or "")
    for path in script.optimizers:
        for value in script.values.get(path, ()):
            for node in ast.walk(value):
                if isinstance(node, ast.Attribute) and node.attr in ("parameters", "named_parameters"):
                    found.add(path_of(node.value) or "")
    return found - {""}


def _halved(analysis: Analysis, call: ast.Call) -> List[str]:
    """The paths of the models that a call casts: ``m.half()``, ``m = Net().half().cuda()``, ``m.to(torch.float16)``; of what a
    function returns, whatever is bound to it."""
    script = analysis.script
    if not isinstance(call.func, ast.Attribute) or not _casts(script, call):
        return []
    path = path_of(call.func.value)
    if path is not None and isinstance(script.parents.get(call), ast.Expr):
        return [path]
    # In a chain: what the whole chain is assigned to, if the chain starts at the same model or at a constructor.
    node: ast.AST = call
    up = script.parents.get(node)
    while isinstance(up, ast.Attribute) and isinstance(script.parents.get(up), ast.Call):
        node = script.parents[up]
        up = script.parents.get(node)
    start: ast.AST = call
    while isinstance(start, ast.Call) and isinstance(start.func, ast.Attribute) and path_of(start.func) is None:
        start = start.func.value
    if not isinstance(start, ast.Call):
        return []
    begins = path_of(start.func.value) if isinstance(start.func, ast.Attribute) else None
    if isinstance(up, ast.Expr):
        return [begins] if begins else []
    made = (path_of(start.func) or "").rsplit(".", 1)[-1][:1].isupper()
    if isinstance(up, ast.Return) and made:
        return [path for path, values in script.values.items() for value in values
                if isinstance(value, ast.Call) and script.origins.function(value) is script.scope(call)]
    if isinstance(up, ast.Assign) and len(up.targets) == 1:
        target = path_of(up.targets[0])
        if target is not None and (begins == target or made):
            return [target]
    return []


def _casts(script: Script, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "half":
        return not call.args and not call.keywords
    values = [*call.args, *(word.value for word in call.keywords if word.arg == "dtype")]
    return call.func.attr == "to" and any(script.names.dtype(value) == "fp16" for value in values)


def _always_runs(analysis: Analysis, node: ast.AST) -> bool:
    """True if a cast stands under no condition, in code that trains."""
    up = analysis.script.parents.get(node)
    while up is not None:
        if isinstance(up, (ast.If, ast.IfExp, ast.Try, ast.While, ast.Lambda)):
            return isinstance(up, ast.If) and _is_main(up) and _always_runs(analysis, up)
        if isinstance(up, FUNCTIONS) and _OTHER_WORK & tokens(up.name):
            return False
        up = analysis.script.parents.get(up)
    return True


def _after_training(script: Script, call: ast.Call, steps: Set[Tuple[int, int]]) -> bool:
    """True if statements beside the cast train before it and none does after it: what is cast then is used, saved or exported."""
    statement = script.statement(call)
    holder = script.parents.get(statement)
    if isinstance(holder, (ast.Module, *FUNCTIONS)) or isinstance(holder, ast.If) and _is_main(holder):
        if statement not in holder.body:
            return False
        training = _training_functions(script, steps)
        trains = [not isinstance(one, (*FUNCTIONS, ast.ClassDef)) and _trains(one, training, steps) for one in holder.body]
        place = holder.body.index(statement)
        return any(trains[:place]) and not any(trains[place:])
    return False


def _training_functions(script: Script, steps: Set[Tuple[int, int]]) -> Set[str]:
    """Names of the script's functions and methods that step a scaler, themselves or by what they call."""
    functions = [node for node in script.nodes if isinstance(node, FUNCTIONS)]
    found: Set[str] = set()
    while True:
        more = {one.name for one in functions if one.name not in found and _trains(one, found, steps)}
        if not more:
            return found
        found |= more


def _trains(tree: ast.AST, training: Set[str], steps: Set[Tuple[int, int]]) -> bool:
    return any(isinstance(node, ast.Call) and ((node.lineno, node.col_offset) in steps
                                               or (path_of(node.func) or "").rsplit(".", 1)[-1] in training) for node in ast.walk(tree))


def _is_main(test: ast.If) -> bool:
    return isinstance(test.test, ast.Compare) and path_of(test.test.left) == "__name__"


def _is_restored(analysis: Analysis, model: str) -> bool:
    """True if the script also calls ``model.float()`` or the like, or keeps a copy by hand."""
    for node in analysis.script.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and path_of(node.func.value) == model:
            if node.func.attr in ("float", "bfloat16", "double", "requires_grad_"):
                return True
            if node.func.attr == "to" and "float32" in ast.unparse(node):
                return True
    return bool({"master", "fp32params"} & analysis.script.words)
