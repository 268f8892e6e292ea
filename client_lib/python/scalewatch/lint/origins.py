"""Where objects come from that a script hands on: arguments of its own functions and classes, and what those give back.

Names are known by their path as written, anywhere in the file, so what is found here only says what kind of thing a name can be.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Sequence, Set

from .names import path_of

if TYPE_CHECKING:
    from .script import Function, Script

_MAX_DEPTH = 6


class Origins:
    """The expressions that a name's object may have been made by."""

    def __init__(self, script: "Script") -> None:
        self._script = script
        self._given: Dict[str, List[ast.expr]] = {}
        for node in script.nodes:
            if isinstance(node, ast.Call):
                self._hand_over(node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                for target in node.targets:
                    self._give_back(target, node.value)

    def paths(self) -> Set[str]:
        """Every name that something is known of: assigned, or handed over."""
        return set(self._given) | set(self._script.values)

    def of(self, path: str) -> Iterator[ast.expr]:
        """What the name was bound to, through other names, arguments and returns, each once; names themselves are left out."""
        seen: Set[str] = set()
        waiting = [(path, 0)]
        while waiting:
            name, depth = waiting.pop()
            if name in seen or depth > _MAX_DEPTH:
                continue
            seen.add(name)
            for value in [*self._script.values.get(name, ()), *self._given.get(name, ()), *self._fields(name)]:
                other = path_of(value)
                if other is None:
                    yield value
                else:
                    waiting.append((other, depth + 1))

    def _fields(self, path: str) -> Sequence[ast.expr]:
        """For ``state.amp``: what any class of the script is given as its field of this name."""
        head, dot, last = path.rpartition(".")
        if not dot or head == "self":
            return ()
        return [*self._given.get(f".{last}", ()), *self._script.values.get(f"self.{last}", ())]

    def function(self, call: ast.Call) -> Optional["Function"]:
        """The function or method of this script that is called, a class's __init__ among them."""
        script = self._script
        path = path_of(call.func)
        if path is None:
            return None
        if path in script.functions:
            return script.functions[path]
        if path in script.classes:
            return script.method(script.classes[path], "__init__")
        owner, dot, name = path.rpartition(".")
        if not dot:
            return None
        return script.method(script.class_of(script.scope(call)) if owner == "self" else script.made_from(owner), name)

    def _hand_over(self, call: ast.Call) -> None:
        function = self.function(call)
        cls = self._script.classes.get(path_of(call.func) or "")
        if function is not None:
            names = [one.arg for one in [*function.args.posonlyargs, *function.args.args]]
            names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        elif cls is not None:  # a dataclass, a NamedTuple
            names = [f".{one.target.id}" for one in cls.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
        else:
            return
        for name, value in zip(names, call.args):
            if isinstance(value, ast.Starred):
                break
            self._given.setdefault(name, []).append(value)
        dot = "." if function is None else ""
        for word in call.keywords:
            if word.arg:
                self._given.setdefault(dot + word.arg, []).append(word.value)

    def _give_back(self, target: ast.expr, call: ast.Call) -> None:
        function = self.function(call)
        if function is None or path_of(call.func) in self._script.classes:
            return
        for value in returns(self._script, function):
            if isinstance(target, (ast.Tuple, ast.List)):
                if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                    for one, its in zip(target.elts, value.elts):
                        self._keep(one, its)
            else:
                self._keep(target, value)

    def _keep(self, target: ast.expr, value: ast.expr) -> None:
        path = path_of(target)
        if path is not None:
            self._given.setdefault(path, []).append(value)


def returns(script: "Script", function: ast.AST) -> List[ast.expr]:
    """What a function gives back, without those within it."""
    return [node.value for node in ast.walk(function)
            if isinstance(node, ast.Return) and node.value is not None and script.scope(node) is function]
