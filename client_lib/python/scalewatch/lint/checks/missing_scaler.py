"""fp16 autocast without any loss scaling."""

from __future__ import annotations

import ast
from typing import Iterator, List, Set, Tuple

from ..analysis import Analysis, Rule
from ..finding import Finding
from ..flow import Flow
from ..names import path_of
from ..origins import returns
from ..script import FRAMEWORKS
from .fixed_scale import scaled_by_hand

MISSING = Rule("missing-scaler", "warning", "fp16 autocast, backward and step without a GradScaler")
RULES = (MISSING,)


def run(analysis: Analysis) -> Iterator[Finding]:
    script = analysis.script
    words = script.words_in_use
    if words & {"scaler", "scalers", "gradscaler", "scaling", "unscale", "rescale"}:
        return
    if script.names.imports(*FRAMEWORKS) or "set_autocast_gpu_dtype" in script.source.text or "loss_scale" in script.source.text:
        return
    seen: Set[Tuple[int, int]] = set()
    for flow in analysis.flows:
        regions = [node for node, region in flow.regions if region.is_fp16]
        if not regions or not any(True for _ in flow.of("optimizer_step")) or any(True for _ in flow.of("unknown")):
            continue
        for event in flow.of("backward"):
            if event.at in seen or not _from_region(analysis, flow, event.node, regions) or any(scaled_by_hand(analysis, event)):
                continue
            seen.add(event.at)
            loss = ast.unparse(event.node.func.value) if isinstance(event.node.func, ast.Attribute) else "loss"
            yield analysis.finding(
                MISSING, event.node, "The forward pass runs in fp16 (autocast's type on a GPU), where gradients under 6e-8 become 0, "
                "and nothing scales the loss. Use a GradScaler, or bfloat16, which needs none.",
                f"scaler.scale({loss}).backward()\nscaler.step(optimizer)\nscaler.update()")


def _from_region(analysis: Analysis, flow: Flow, call: ast.Call, regions: List[ast.stmt]) -> bool:
    """True if the loss was computed under fp16 autocast, as far as assignments in the same function show."""
    if not isinstance(call.func, ast.Attribute):
        return False
    script = analysis.script
    function = script.scope(call)
    inside = {path for node in regions if script.scope(node) is function for path in _assigned(node)}
    # What a function of the script gives back out of such a region.
    within = {id(n) for node in regions if script.scope(node) is not function for n in ast.walk(node)}
    inside |= {path for path, values in script.values.items() for value in values
               if isinstance(value, ast.Call) and script.scope(value) is function
               for made in [script.origins.function(value)] if made is not None and any(id(r) in within for r in returns(script, made))}
    names = {p for n in ast.walk(call.func.value) for p in [path_of(n)] if p}
    if names & inside:
        return True
    sources = [v for name in names for v in script.values.get(name, ()) if script.scope(v) is function]
    return any(path_of(n) in inside for value in sources for n in ast.walk(value) if isinstance(n, (ast.Name, ast.Attribute)))


def _assigned(region: ast.AST) -> Set[str]:
    found: Set[str] = set()
    for node in ast.walk(region):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        else:
            continue
        for target in targets:
            found |= {p for n in ast.walk(target) for p in [path_of(n)] if p}
    return found - {"self"}
