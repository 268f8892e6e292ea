"""What a script holds: its scalers, optimizers, schedulers, functions and classes, by name and without running it."""

from __future__ import annotations

import ast
from typing import Dict, Iterable, Iterator, List, Optional, Set, Tuple, Union

from .names import SCALER_CLASSES, Autocast, Names, calls_in, path_of, tokens
from .origins import Origins
from .sources import Source

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Libraries that scale, unscale and step behind calls of their own: the order of theirs is not ours to judge.
FRAMEWORKS = ("accelerate", "deepspeed", "lightning", "pytorch_lightning", "lightning_fabric", "apex", "composer", "ignite",
              "colossalai", "megatron", "transformer_engine", "fairseq", "mmcv", "mmengine", "fairscale")


class Script:
    """The names of one script. Objects are known by their path as written (``self.scaler``), anywhere in the file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tree = source.tree
        self.lines = source.text.split("\n")
        self.names = Names(self.tree)
        self.parents: Dict[ast.AST, ast.AST] = {}
        self.functions: Dict[str, Function] = {}
        self.methods: Dict[Tuple[str, str], Function] = {}
        self.classes: Dict[str, ast.ClassDef] = {}
        self.values: Dict[str, List[ast.expr]] = {}
        self._locals: Dict[ast.AST, Set[str]] = {}
        self._schedulers: Dict[str, bool] = {}
        self.nodes: List[ast.AST] = list(ast.walk(self.tree))
        for node in self.nodes:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        for node in self.nodes:
            self._note(node)
        self.words = {word for name in self._identifiers(self.nodes) for word in tokens(name)}
        # A GradScaler that is imported may be one that was forgotten.
        used = (node for node in self.nodes if not (isinstance(node, ast.alias) and node.name == "GradScaler" and not node.asname))
        self.words_in_use = {word for name in self._identifiers(used) for word in tokens(name)}
        self.origins = Origins(self)
        self.annotations: Dict[str, List[ast.expr]] = {}
        for node in self.nodes:
            self._note_annotation(node)
        # By the name that holds it, also where it was handed over: the calls that made it.
        self.made_scalers = {path: calls for path in self.origins.paths() if (calls := [c for c in self._made_by(path) if self.names.is_grad_scaler(c)])}
        self.scalers: Set[str] = set(self.made_scalers) | self._used_scalers()
        self.optimizers: Set[str] = self._optimizers()

    @staticmethod
    def _identifiers(nodes: Iterable[ast.AST]) -> Iterator[str]:
        """Every name that the code uses; comments and texts say nothing."""
        for node in nodes:
            for field in ("id", "attr", "arg", "name", "asname", "module"):
                value = getattr(node, field, None)
                if isinstance(value, str):
                    yield value

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, FUNCTIONS):
            owner = self.parents.get(node)
            if isinstance(owner, ast.ClassDef):
                self.methods[(owner.name, node.name)] = node
            else:
                self.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self._bind(node.target, node.value)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, node.context_expr)

    def _bind(self, target: ast.AST, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)) and len(
                target.elts) == len(value.elts):
            for one, its in zip(target.elts, value.elts):
                self._bind(one, its)
            return
        path = path_of(target)
        if path is not None:
            self.values.setdefault(path, []).append(value)

    def _note_annotation(self, node: ast.AST) -> None:
        """``x: Type``, of arguments, names and the fields of classes."""
        if isinstance(node, ast.arg) and node.annotation is not None:
            self.annotations.setdefault(node.arg, []).append(node.annotation)
        elif isinstance(node, ast.AnnAssign):
            path = path_of(node.target)
            if path is not None:
                field = isinstance(self.parents.get(node), ast.ClassDef)
                self.annotations.setdefault(f".{path}" if field else path, []).append(node.annotation)

    def _is_said_to_be(self, path: str, *types: str) -> bool:
        """True if a name's type is written down, Optional or not, and is one of these everywhere."""
        written = self.annotations.get(path) or self.annotations.get("." + path.rpartition(".")[2], [])
        return bool(written) and all(
            any(self.names.dotted(n).rpartition(".")[2] in types for n in ast.walk(one)) for one in written)

    def _made_by(self, path: str) -> Iterator[ast.Call]:
        """The calls that may have made what a name holds. What an object of the script's own is given is not that object."""
        for value in self.origins.of(path):
            if not (isinstance(value, ast.Call) and (path_of(value.func) in self.classes or path_of(value.func) in self.functions)):
                yield from calls_in(value)

    def _used_scalers(self) -> Set[str]:
        """Known by what is done with them: ``S.scale(loss).backward()``, at once or through a name; ``S.unscale_(optimizer)``;
        ``S.step(optimizer)`` of what is called a scaler; or said to be one."""
        found: Set[Optional[str]] = {path for path in self.annotations if self._is_said_to_be(path, *SCALER_CLASSES)}
        backward = {path_of(n.func.value) for n in self.nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
                    and n.func.attr == "backward" and not n.args}
        found |= {made for path, values in self.values.items() if path in backward for v in values for made in [self._scaling_call(v)]
                  if made}
        for node in self.nodes:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            path = path_of(node.func.value)
            if path is None:
                if node.func.attr == "backward" and self._scaling_call(node.func.value):
                    found.add(self._scaling_call(node.func.value))
                continue
            named = any(word.endswith("scaler") for word in tokens(path.rsplit(".", 1)[-1]))
            if node.func.attr == "unscale_" and node.args or node.func.attr == "step" and node.args and named:
                found.add(path)
        return {path for path in found if path}

    def _scaling_call(self, node: ast.AST) -> Optional[str]:
        """The path of S in ``S.scale(loss)``."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "scale" and node.args:
            return path_of(node.func.value)
        return None

    def scaling(self, node: ast.AST, scope: Optional[ast.AST] = None) -> Optional[str]:
        """The path of the scaler that an expression was scaled by, looking through one assignment in the same scope."""
        direct = self._scaling_call(node)
        if direct is not None:
            return direct if self.is_scaler(direct) else None
        path = path_of(node)
        if path is None:
            return None
        for value in self.values.get(path, ()):
            made = self._scaling_call(value)
            if made is not None and self.is_scaler(made) and (scope is None or self.scope(value) is scope):
                return made
        return None

    def _optimizers(self) -> Set[str]:
        found = {path for path in self.origins.paths() if any(map(self._makes_optimizer, self._made_by(path)))}
        for node in self.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                if node.func.attr in ("step", "unscale_") and self.is_scaler(path_of(node.func.value)):
                    path = path_of(node.args[0])
                    if path:
                        found.add(path)
        return found

    def _makes_optimizer(self, call: ast.Call) -> bool:
        name = self.names.dotted(call.func)
        return name.startswith(("torch.optim.", "optim.")) and "lr_scheduler" not in name or name.split(".")[-1] in (
            "AdamW", "Adam", "SGD", "create_optimizer", "build_optimizer", "configure_optimizers")

    def is_scaler(self, path: Optional[str]) -> bool:
        return path is not None and path in self.scalers

    def is_optimizer(self, path: Optional[str]) -> bool:
        if path is None or self.is_scheduler(path):
            return False
        return path in self.optimizers or bool({"optimizer", "optim", "opt"} & tokens(path.rsplit(".", 1)[-1]))

    def is_scheduler(self, path: Optional[str]) -> bool:
        if path is None:
            return False
        if path not in self._schedulers:
            self._schedulers[path] = self._finds_scheduler(path)
        return self._schedulers[path]

    def _finds_scheduler(self, path: str) -> bool:
        for call in self._made_by(path):
            name = self.names.dotted(call.func)
            if ".lr_scheduler." in f".{name}" or name.rsplit(".", 1)[-1].startswith("get_") and "schedule" in name:
                return True
        if self._is_said_to_be(path, "LRScheduler", "_LRScheduler"):
            return True
        return any(word.startswith("sched") or word == "scheduler" for word in tokens(path.rsplit(".", 1)[-1]))

    def is_made(self, path: str) -> bool:
        """True if the script makes this scaler itself."""
        return path in self.made_scalers or path.rsplit(".", 1)[-1] in {p.rsplit(".", 1)[-1] for p in self.made_scalers}

    def is_inert(self, path: str) -> bool:
        """True for a scaler that is off for good: ``GradScaler(enabled=False)``."""
        last = path.rsplit(".", 1)[-1]
        calls = [c for p, made in self.made_scalers.items() if p.rsplit(".", 1)[-1] == last for c in made]
        return bool(calls) and all(
            any(w.arg == "enabled" and isinstance(w.value, ast.Constant) and not w.value.value for w in c.keywords) for c in calls)

    @property
    def only_bf16(self) -> bool:
        """True if every autocast region of the script is literally bfloat16: its scaler then has nothing to skip."""
        regions = [a for a in (self.names.autocast(n) for n in self.nodes) if a is not None and a.enabled]
        return bool(regions) and all(a.dtype == "bf16" for a in regions)

    def autocast(self, expression: ast.AST) -> Optional[Autocast]:
        """The region that ``with expression:`` opens, looking through names and conditional expressions. A name that the
        script binds itself, be it ``autocast``, is what it was bound to."""
        if isinstance(expression, ast.IfExp):
            return self.autocast(expression.body) or self.autocast(expression.orelse)
        path = path_of(expression.func) if isinstance(expression, ast.Call) else path_of(expression)
        if path not in self.values and path not in self.functions:
            return self.names.autocast(expression)
        found = [self._direct_autocast(value) for value in self.values.get(path or "", ())]
        regions = {region for region in found if region is not None}
        if len(regions) > 1:
            return Autocast("unknown", any(region.enabled for region in regions))
        return regions.pop() if regions else None

    def _direct_autocast(self, value: ast.AST) -> Optional[Autocast]:
        if isinstance(value, ast.IfExp):
            return self._direct_autocast(value.body) or self._direct_autocast(value.orelse)
        if isinstance(value, ast.Lambda):
            return self._direct_autocast(value.body)
        return self.names.autocast(value)

    def scope(self, node: ast.AST) -> ast.AST:
        """The function around a node, or the module."""
        up = self.parents.get(node)
        while up is not None and not isinstance(up, (*FUNCTIONS, ast.Lambda)):
            up = self.parents.get(up)
        return up if up is not None else self.tree

    def locals(self, function: ast.AST) -> Set[str]:
        """The parameters of a function and the names that it binds; for the module, none."""
        if function not in self._locals:
            names: Set[str] = set()
            if isinstance(function, FUNCTIONS):
                for node in ast.walk(function):
                    if isinstance(node, ast.arg):
                        names.add(node.arg)
                    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        names.add(node.id)
            self._locals[function] = names
        return self._locals[function]

    def statement(self, node: ast.AST) -> ast.AST:
        """The statement a node is part of."""
        while not isinstance(node, ast.stmt) and node in self.parents:
            node = self.parents[node]
        return node

    def class_of(self, function: ast.AST) -> Optional[ast.ClassDef]:
        """The class whose body a function (or a function nested in it) stands in."""
        up: Optional[ast.AST] = function
        while up is not None and not isinstance(up, ast.ClassDef):
            up = self.parents.get(up)
        return up

    def method(self, cls: Optional[ast.ClassDef], name: str, depth: int = 0) -> Optional[Function]:
        """A method of a class or of its bases in this script."""
        if cls is None or depth > 8:
            return None
        found = self.methods.get((cls.name, name))
        if found is not None:
            return found
        for base in cls.bases:
            found = self.method(self.classes.get(path_of(base) or ""), name, depth + 1)
            if found is not None:
                return found
        return None

    def has_foreign_base(self, cls: Optional[ast.ClassDef], below: Tuple[str, ...] = ()) -> bool:
        """True if a class inherits from one that this script does not show, other than torch's Module and object. below: the classes
        that were asked for it; one that names itself (``class Dataset(Dataset)``) means another, imported under this name."""
        if cls is None:
            return False
        if cls.name in below:
            return True
        for base in cls.bases:
            path = path_of(base) or "?"
            if path in self.classes:
                if self.has_foreign_base(self.classes[path], (*below, cls.name)):
                    return True
            elif path.rsplit(".", 1)[-1] not in ("Module", "object", "ABC", "Generic", "Protocol"):
                return True
        return False

    def made_from(self, path: str) -> Optional[ast.ClassDef]:
        """The class of this script that ``path`` is an instance of, if it is plainly so."""
        found = {self.classes[name] for value in self.values.get(path, ()) for name in [self._called_class(value)] if name}
        return found.pop() if len(found) == 1 else None

    def _called_class(self, value: ast.AST) -> Optional[str]:
        """The local class in ``Net()``, ``Net().cuda()``, ``DDP(Net())``."""
        names = {path_of(call.func) for call in calls_in(value)} & set(self.classes)
        return names.pop() if len(names) == 1 else None

    def line(self, number: int) -> str:
        """The text of a 1-based line, without indentation."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""
