"""The order of events: what a training function does with its scaler, along every way through it.

A function becomes a tree (paths.py) whose leaves are events. Calls of functions and methods of the same script are followed,
with the arguments' names.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from .conditions import decided
from .names import Autocast, path_of, tokens
from .paths import Branch, Event, Exit, Guard, Leaf, Once, Part, Path, Sequence, all_paths, matters
from .script import FUNCTIONS, Function, Script

_MAX_DEPTH = 6
_MAX_EVENTS = 3000
_CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "dispatch_clip_grad")
_OUTSIDE_ENGINES = {"accelerator", "fabric", "engine", "manual", "trainer", "strategy"}


@dataclass(frozen=True)
class _Context:
    function: ast.AST
    bindings: Tuple[Tuple[str, str], ...] = ()
    guards: Tuple[Guard, ...] = ()
    loops: Tuple[ast.AST, ...] = ()
    autocast: Optional[Autocast] = None
    grad: bool = True
    stack: Tuple[ast.AST, ...] = ()


@dataclass
class Flow:
    """One function (or the module's body) with all that it calls."""

    root: ast.AST
    tree: Sequence
    events: List[Event]
    # Statements and tests that run under an enabled fp16 autocast with gradients, each with the function it stands in.
    autocast_code: List[ast.AST]
    # Where a `with autocast` block is entered with gradients on, in the root or in what it calls.
    regions: List[Tuple[ast.stmt, Autocast]] = field(default_factory=list)

    def paths(self) -> List[Path]:
        """Every way through, as its events in order; empty if there are too many to look at."""
        return all_paths(self.tree)

    def of(self, *kinds: str) -> Iterator[Event]:
        return (event for event in self.events if event.kind in kinds)


def flows(script: Script) -> List[Flow]:
    """The module's body and every function of the script, each as a flow of its own."""
    roots: List[Union[ast.Module, Function]] = [script.tree]
    roots += [node for node in script.nodes if isinstance(node, FUNCTIONS)]
    return [_Builder(script).build(root) for root in roots]


class _Builder:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._events: List[Event] = []
        self._code: List[ast.AST] = []
        self._regions: List[Tuple[ast.stmt, Autocast]] = []
        self._visits = 0

    def build(self, root: Union[ast.Module, Function]) -> Flow:
        context = _Context(root, stack=(root,))
        if isinstance(root, FUNCTIONS):
            context = self._decorated(root, context)
        tree = self._body(root.body, context)
        return Flow(root, tree, self._events, self._code, self._regions)

    def _decorated(self, function: Function, context: _Context) -> _Context:
        for decorator in function.decorator_list:
            region = self._script.autocast(decorator)
            name = self._script.names.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if region is not None:
                context = _with(context, autocast=region)
            elif name.rsplit(".", 1)[-1] in ("no_grad", "inference_mode"):
                context = _with(context, grad=False)
        return context

    # Statements.

    def _body(self, statements: List[ast.stmt], context: _Context) -> Sequence:
        parts: List[Part] = []
        for statement in statements:
            self._visits += 1
            if self._visits > 50 * _MAX_EVENTS:
                break
            parts.extend(self._statement(statement, context))
            if isinstance(statement, ast.If) and not statement.orelse and isinstance(
                    statement.body[-1], (ast.Continue, ast.Return, ast.Break, ast.Raise)):
                # What follows an early exit stands under the opposite condition.
                guard = Guard(statement.test, False, context.loops)
                context = _with(context, guards=context.guards + (guard,))
        return Sequence(parts)

    def _statement(self, node: Any, context: _Context) -> List[Part]:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
            return []
        if isinstance(node, ast.If):
            return self._if(node, context)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            head = node.test if isinstance(node, ast.While) else node.iter
            parts = self._expression(head, context)
            inner = _with(context, loops=context.loops + (node,))
            body = self._body(node.body, inner)
            rest = self._body(node.orelse, context)
            return parts + [Once(body, frozenset(["continue", "break"]))] + rest.parts
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self._with_block(node, context)
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            return self._try(node, context)
        if type(node).__name__ == "Match":
            parts = self._expression(node.subject, context)
            for index, case in enumerate(node.cases):
                parts.append(Branch(f"case {index} {id(node)}", self._body(case.body, context), Sequence([])))
            return parts
        parts = self._expression(node, context)
        kind = {ast.Continue: "continue", ast.Break: "break", ast.Return: "return", ast.Raise: "raise"}.get(type(node))
        return parts + [Exit(kind)] if kind else parts

    def _if(self, node: ast.If, context: _Context) -> List[Part]:
        parts = self._expression(node.test, context)
        yes = _with(context, guards=context.guards + (Guard(node.test, True, context.loops),))
        no = _with(context, guards=context.guards + (Guard(node.test, False, context.loops),))
        return parts + self._split(node.test, self._body(node.body, yes), self._body(node.orelse, no), context)

    def _split(self, test: ast.expr, then: Sequence, other: Sequence, context: _Context) -> List[Part]:
        if not matters(then) and not matters(other):
            return []
        if isinstance(test, ast.BoolOp):
            first, rest = test.values[0], test.values[1:]
            tail = rest[0] if len(rest) == 1 else ast.BoolOp(test.op, rest)
            inner = Sequence(self._split(tail, then, other, context))
            both = (inner, other) if isinstance(test.op, ast.And) else (then, inner)
            return self._split(first, *both, context)
        if isinstance(test, ast.Constant):
            return (then if test.value else other).parts
        atom, holds = decided(test)
        if atom != "AMP":
            atom = self._named(atom, test, context)
        return [Branch(atom, then, other) if holds else Branch(atom, other, then)]

    def _named(self, atom: str, test: ast.expr, context: _Context) -> str:
        """A condition in the names of the outermost caller. One on a function's own variables is that function's alone."""
        bindings, own = dict(context.bindings), self._script.locals(context.function)
        for name in {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}:
            if name in bindings:
                atom = re.sub(rf"\b{name}\b", bindings[name], atom)
            elif name in own and name != "self":
                return f"{id(context.function)} {atom}"
        return atom

    def _with_block(self, node: Union[ast.With, ast.AsyncWith], context: _Context) -> List[Part]:
        parts: List[Part] = []
        for item in node.items:
            parts += self._expression(item.context_expr, context)
            region = self._script.autocast(item.context_expr)
            name = self._script.names.dotted(
                item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr)
            if region is not None:
                context = _with(context, autocast=region)
                if context.grad:
                    self._regions.append((node, region))
            elif name.rsplit(".", 1)[-1] in ("no_grad", "inference_mode"):
                context = _with(context, grad=False)
        return parts + self._body(node.body, context).parts

    def _try(self, node: Any, context: _Context) -> List[Part]:
        whole = Sequence(self._body(node.body, context).parts + self._body(node.orelse, context).parts)
        for number, handler in enumerate(node.handlers):
            caught = self._body(handler.body, context)
            if matters(caught) or matters(whole):
                whole = Sequence([Branch(f"except {number} {id(node)}", caught, whole)])
        return whole.parts + self._body(node.finalbody, context).parts

    # Expressions, in the order in which Python evaluates them.

    def _expression(self, node: ast.AST, context: _Context) -> List[Part]:
        if context.autocast is not None and context.autocast.is_fp16 and context.grad:
            self._code.append(node)
        return self._walk(node, context)

    def _walk(self, node: ast.AST, context: _Context) -> List[Part]:
        if isinstance(node, ast.Lambda):
            return []
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            context = _with(context, loops=context.loops + (node,))
        if isinstance(node, ast.IfExp):
            then, other = Sequence(self._walk(node.body, context)), Sequence(self._walk(node.orelse, context))
            return self._walk(node.test, context) + self._split(node.test, then, other, context)
        parts: List[Part] = []
        for child in ast.iter_child_nodes(node):
            parts += self._walk(child, context)
        if isinstance(node, ast.Call):
            parts += self._call(node, context)
        return parts

    def _call(self, call: ast.Call, context: _Context) -> List[Part]:
        event = self._event(call, context)
        if event is not None:
            if len(self._events) < _MAX_EVENTS:
                self._events.append(event)
                return [Leaf(event)]
            return []
        return self._follow(call, context)

    def _event(self, call: ast.Call, context: _Context) -> Optional[Event]:
        def made(kind: str, scaler: str = "", target: str = "") -> Event:
            return Event(kind, call, scaler, target, context.guards, context.loops, context.autocast)

        script = self._script
        name = script.names.dotted(call.func).rsplit(".", 1)[-1]
        if name in _CLIPS or isinstance(call.func, ast.Attribute) and call.func.attr in _CLIPS:
            words = tokens(path_of(call.func.value) or "") if isinstance(call.func, ast.Attribute) else set()
            if words & _OUTSIDE_ENGINES or name in script.functions or _only_measures(call):
                return None
            return made("clip", target=ast.unparse(call.args[0]) if call.args else "")
        if script.names.dotted(call.func) == "torch.autograd.backward" and call.args:
            scaler = next((s for n in ast.walk(call.args[0]) for s in [script.scaling(n, context.function)] if s), None)
            return made("scaled_backward", self._object(scaler, context)) if scaler else made("backward")
        if not isinstance(call.func, ast.Attribute):
            return None
        attribute, owner = call.func.attr, call.func.value
        if attribute == "backward":
            return self._backward(call, owner, context, made)
        path = path_of(owner)
        if path is None:
            return None
        here = self._object(path, context)
        is_scaler = script.is_scaler(path) or script.is_scaler(here)
        first = self._object(path_of(call.args[0]), context) if call.args else ""
        if attribute == "unscale_" and call.args:
            return made("unscale", here, first or ast.unparse(call.args[0]))
        if attribute == "step" and is_scaler and call.args:
            return made("step", here, first or ast.unparse(call.args[0]))
        if attribute == "update" and is_scaler:
            return made("update", here)
        if attribute in ("get_scale", "_get_scale_async"):
            return made("get_scale", here)
        if attribute == "step" and script.is_scheduler(path):
            return made("scheduler_step", target=here)
        if attribute == "step" and script.is_optimizer(here):
            return made("optimizer_step", target=here)
        if attribute == "zero_grad":
            return made("zero_grad", target=here)
        return None

    def _backward(self, call: ast.Call, owner: ast.expr, context: _Context, made: Callable[..., Event]) -> Optional[Event]:
        scaler = self._script.scaling(owner, context.function)
        if scaler is not None:
            return made("scaled_backward", self._object(scaler, context))
        path = path_of(owner) or ""
        inside = [n for n in ast.walk(owner) if isinstance(n, ast.Attribute) and n.attr == "scale"]
        if inside:
            # cast(Tensor, scaler.scale(loss)).backward(), or a scaler that we have no name for.
            scaler = next((p for n in inside for p in [path_of(n.value)] if self._script.is_scaler(p)), None)
            return made("scaled_backward", self._object(scaler, context)) if scaler else made("unknown")
        if isinstance(owner, ast.Call) and path_of(owner.func) == "super":
            return None
        if tokens(path) & _OUTSIDE_ENGINES or path == "self" or call.args:
            # accelerator.backward(loss), engine.backward(loss): they scale by themselves.
            return None if self._target_function(call, context) else made("unknown")
        return made("backward")

    def _object(self, path: Optional[str], context: _Context) -> str:
        """The name of an object as the outermost caller has it."""
        if path is None:
            return ""
        bindings = dict(context.bindings)
        head, dot, rest = path.partition(".")
        if head in bindings:
            return bindings[head] + dot + rest
        values = [v for v in self._script.values.get(path, ()) if self._script.scope(v) is context.function]
        if len(values) == 1 and isinstance(values[0], (ast.Name, ast.Attribute)):
            other = path_of(values[0])
            if other and other.partition(".")[0] != head:
                return bindings.get(other, other)
        return path

    # Calls.

    def _target_function(self, call: ast.Call, context: _Context) -> Optional[Function]:
        script, function = self._script, call.func
        if isinstance(function, ast.Name):
            if function.id in script.functions:
                return script.functions[function.id]
            cls = script.made_from(function.id)
            return script.method(cls, "forward") if cls else None
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
            own = script.class_of(context.function)
            found = script.method(own, function.attr)
            if found is None:
                cls = script.made_from(f"self.{function.attr}")
                found = script.method(cls, "forward") if cls else None
            return found
        return None

    def _follow(self, call: ast.Call, context: _Context) -> List[Part]:
        target = self._target_function(call, context)
        if target is not None and target not in context.stack and len(context.stack) <= _MAX_DEPTH:
            if self._visits > 50 * _MAX_EVENTS or len(self._events) >= _MAX_EVENTS:
                return []
            inner = _Context(target, self._arguments(call, target, context), context.guards, context.loops,
                             context.autocast, context.grad, context.stack + (target,))
            return [Once(self._body(target.body, self._decorated(target, inner)), frozenset(["return"]))]
        if target is None and self._sounds_relevant(call, context):
            event = Event("unknown", call, "", "", context.guards, context.loops, context.autocast)
            self._events.append(event)
            return [Leaf(event)]
        return []

    def _arguments(self, call: ast.Call, target: Function, context: _Context) -> Tuple[Tuple[str, str], ...]:
        names = [a.arg for a in target.args.posonlyargs + target.args.args]
        is_method = bool(names) and names[0] in ("self", "cls")
        bound: Dict[str, str] = {}
        for name, value in zip(names[is_method:], call.args):
            if isinstance(value, ast.Starred):
                break
            bound[name] = self._object(path_of(value), context)
        for word in call.keywords:
            if word.arg:
                bound[word.arg] = self._object(path_of(word.value), context)
        return tuple((name, path) for name, path in bound.items() if path)

    def _sounds_relevant(self, call: ast.Call, context: _Context) -> bool:
        script = self._script
        values = list(call.args) + [word.value for word in call.keywords]
        paths = [path_of(value) for value in values]
        name = script.names.dotted(call.func)
        if script.names.is_grad_scaler(call):
            return False
        if any(p and (script.is_scaler(p) or script.is_scaler(self._object(p, context))) for p in paths):
            return name not in ("print", "isinstance", "hasattr", "getattr", "bool")
        if script.is_scaler(name):
            return True  # a scaler that is called, like timm's: it does everything itself
        if any(script.is_scaler(path_of(held)) for value in values for held in _held(value)):
            return True
        head, _, last = name.rpartition(".")
        if head == "self" and script.has_foreign_base(script.class_of(context.function)):
            return bool(tokens(last) & {"unscale", "clip", "step", "optim", "optimize", "amp", "scaler", "backward", "grad",
                                        "grads", "gradients", "gradient", "update"})
        return bool(tokens(last) & {"unscale", "scaler"})


def _held(value: ast.expr) -> Iterator[ast.expr]:
    """What lists, tuples and dicts written down hold: {"scaler": scaler} hands the scaler over, scaler.state_dict() does not."""
    if isinstance(value, ast.Dict):
        for one in value.values:
            yield from _held(one)
    elif isinstance(value, (ast.List, ast.Tuple)):
        for one in value.elts:
            yield from _held(one)
    else:
        yield value


def _only_measures(clip: ast.Call) -> bool:
    """True for a clip without a limit, which returns the norm and changes nothing."""
    limits = clip.args[1:2] + [word.value for word in clip.keywords if word.arg in ("max_norm", "clip_value", "value")]
    return any(isinstance(v, ast.Constant) and v.value is None or "inf" in tokens(ast.unparse(v)) for v in limits)


def _with(context: _Context, **changes: Any) -> _Context:
    values = {name: getattr(context, name) for name in context.__dataclass_fields__}
    values.update(changes)
    return _Context(**values)
