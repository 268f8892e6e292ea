"""What names in a script stand for: imports, dotted paths, torch's own classes."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Dict, Iterator, Optional, Set

SCALER_CLASSES = ("GradScaler", "ShardedGradScaler")
_BF16_DEVICES = ("cpu", "hpu", "xla")


def tokens(text: str) -> Set[str]:
    """The words of an identifier or an expression: ``self.use_amp`` and ``useAmp`` have self, use, amp."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text)
    return {word for word in re.split(r"[^A-Za-z0-9]+|_", text.lower()) if word}


def path_of(node: Optional[ast.AST]) -> Optional[str]:
    """``self.scaler`` or ``opts[0]`` as text; None for anything that is not a plain path."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = path_of(node.value)
        return None if base is None else f"{base}.{node.attr}"
    if isinstance(node, ast.Subscript):
        base = path_of(node.value)
        index = node.slice
        if base is not None and isinstance(index, (ast.Constant, ast.Name)):
            return f"{base}[{ast.unparse(index)}]"
    return None


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Every call inside, the node itself included."""
    return (child for child in ast.walk(node) if isinstance(child, ast.Call))


@dataclass(frozen=True)
class Autocast:
    """One autocast region. ``dtype`` is fp16, bf16 or unknown; ``enabled`` is False only where it is literally so."""

    dtype: str
    enabled: bool

    @property
    def is_fp16(self) -> bool:
        return self.enabled and self.dtype == "fp16"


class Names:
    """Resolves names through the imports of a whole script, wherever they stand."""

    def __init__(self, tree: ast.AST) -> None:
        self._imports: Dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        self._imports[alias.asname] = alias.name
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self._imports.setdefault(alias.asname or alias.name, f"{node.module}.{alias.name}")

    def dotted(self, node: Optional[ast.AST]) -> str:
        """The full name of a plain path, e.g. ``torch.nn.functional.softmax``; empty for anything else."""
        path = path_of(node)
        if path is None:
            return ""
        head, _, rest = path.partition(".")
        head = self._imports.get(head, head)
        return f"{head}.{rest}" if rest else head

    def imports(self, *packages: str) -> bool:
        """True if the script imports one of these top-level packages."""
        return any(name.split(".")[0] in packages for name in self._imports.values())

    def is_grad_scaler(self, call: ast.AST) -> bool:
        """True for a call that makes a GradScaler of torch's kind."""
        if not isinstance(call, ast.Call):
            return False
        name = self.dotted(call.func)
        return name.rsplit(".", 1)[-1] in SCALER_CLASSES and not name.startswith(("self.", "paddle", "mindspore"))

    def is_torch(self, node: ast.AST, *functions: str) -> bool:
        """True for ``torch.F``, ``torch.nn.functional.F``, ``F.F`` and what is imported from there, F in functions."""
        name = self.dotted(node)
        head, _, last = name.rpartition(".")
        return last in functions and head in ("torch", "torch.nn.functional", "F", "nn.functional", "torch.special")

    def dtype(self, node: Optional[ast.AST]) -> str:
        """fp16, bf16 or unknown."""
        name = self.dotted(node)
        if name in ("torch.float16", "torch.half"):
            return "fp16"
        if name in ("torch.bfloat16",):
            return "bf16"
        return "unknown"

    def autocast(self, node: Optional[ast.AST]) -> Optional[Autocast]:
        """Reads ``torch.autocast(...)`` and its relatives, or a functools.partial of one."""
        if not isinstance(node, ast.Call):
            return None
        args = list(node.args)
        name = self.dotted(node.func)
        if name in ("partial", "functools.partial") and args:
            name = self.dotted(args.pop(0))
        if name.rsplit(".", 1)[-1] != "autocast" or not (name.startswith("torch.") or name in ("autocast", "amp.autocast")):
            return None
        keywords = {word.arg: word.value for word in node.keywords if word.arg}
        dtype_node = keywords.get("dtype", keywords.get("fast_dtype"))
        old_api = ".cuda.amp." in name or ".cpu.amp." in name
        device: object = None
        if old_api:
            device = "cpu" if ".cpu.amp." in name else "cuda"
            enabled = keywords.get("enabled", args[0] if args else None)
        else:
            device_node = keywords.get("device_type", args[0] if args else None)
            device = device_node.value if isinstance(device_node, ast.Constant) else None
            if dtype_node is None and len(args) > 1:
                dtype_node = args[1]
            enabled = keywords.get("enabled", args[2] if len(args) > 2 else None)
            if isinstance(device, bool):  # an old positional `enabled`
                enabled, device = device_node, "cuda"
        if dtype_node is None:
            dtype = "bf16" if isinstance(device, str) and device.split(":")[0] in _BF16_DEVICES else "fp16"
        else:
            dtype = self.dtype(dtype_node)
        is_off = isinstance(enabled, ast.Constant) and enabled.value is False
        return Autocast(dtype, not is_off)
