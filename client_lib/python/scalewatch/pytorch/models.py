"""Names and the forward order of what the given modules hold."""
from __future__ import annotations

import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

import torch

from ..native import DTYPES
from .hooks import Hook

__all__ = ["Models", "Slot", "compiling", "dtype_of", "transformed"]

# What wrappers put into names: DataParallel and DDP, FSDP, torch.compile, activation checkpointing.
_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:_fsdp_wrapped_module|_orig_mod|_checkpoint_wrapped_module)\.")
# Modules that only stand around the model: of PyTorch, Megatron, DeepSpeed.
_AROUND = ("DistributedDataParallel", "DataParallel", "Float16Module", "DeepSpeedEngine")

_dtypes: Dict[torch.dtype, Optional[str]] = {}


def dtype_of(dtype: torch.dtype) -> Optional[str]:
    """The name of a dtype that can be measured, else None."""
    if dtype not in _dtypes:
        name = str(dtype).replace("torch.", "")
        name = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}.get(name, name)
        _dtypes[dtype] = name if name in DTYPES else None
    return _dtypes[dtype]


def compiling() -> bool:
    """Whether this code is being traced by torch.compile: then it must leave nothing in the graph."""
    return bool(torch.compiler.is_compiling())


def transformed() -> bool:
    """Whether torch.func (vmap, grad, jvp, ...) stands around this code: tensors have no memory of their own then."""
    return torch._C._functorch.peek_interpreter_stack() is not None


class Slot:
    """Where a module holds a parameter or buffer. What it holds may be replaced: `self.mean = ...`, load_state_dict(assign=True)."""

    __slots__ = ("_held", "_key")

    def __init__(self, held: Mapping[str, Any], key: str) -> None:
        self._held, self._key = held, key

    def now(self) -> Optional[torch.Tensor]:
        """None when it is not there (any more, or yet: of a lazy module)."""
        tensor: Optional[torch.Tensor] = self._held[self._key] if self._key in self._held else None
        return None if tensor is None or torch.nn.parameter.is_lazy(tensor) else tensor


class Models:
    """The modules given to attach(), under one set of names."""

    def __init__(self, given: Any) -> None:
        if given is None:
            roots: List[Tuple[str, torch.nn.Module]] = []
        elif isinstance(given, torch.nn.Module):
            roots = [("", given)]
        elif isinstance(given, Mapping):
            roots = [(f"{key}.", module) for key, module in given.items()]
        elif isinstance(given, Iterable):
            roots = [(f"{number}.", module) for number, module in enumerate(given)]
        else:
            raise TypeError(f"model: a module, or a list or mapping of them, not {type(given).__name__}")
        for _, module in roots:
            if not isinstance(module, torch.nn.Module):
                raise TypeError(f"model: a torch.nn.Module, not {type(module).__name__}")
        self.roots = roots
        self._executed: Dict[int, int] = {}  # id of a tensor: when it took part in the first forward pass
        self._handles: List[Any] = []
        self._next = 1

    def modules(self) -> Iterator[Tuple[str, torch.nn.Module]]:
        seen, taken = set(), set()  # type: ignore[var-annotated]
        for prefix, root in self.roots:
            for name, module in root.named_modules():
                if id(module) not in seen:
                    seen.add(id(module))
                    yield self._name(prefix, root, name, taken if name else set()), module

    def parameters(self) -> Iterator[Tuple[str, torch.Tensor]]:
        """Each once, under its first name; those of lazy modules once they are there."""
        yield from ((name, tensor) for name, _, tensor in self._tensors("_parameters"))

    def buffers(self) -> Iterator[Tuple[str, torch.Tensor]]:
        yield from ((name, tensor) for name, _, tensor in self._tensors("_buffers"))

    def parameter_slots(self) -> Iterator[Tuple[str, Slot, torch.Tensor]]:
        yield from self._tensors("_parameters")

    def buffer_slots(self) -> Iterator[Tuple[str, Slot, torch.Tensor]]:
        yield from self._tensors("_buffers")

    def position(self, thing: Any, otherwise: int = 1_000_000) -> int:
        return self._executed.get(id(thing), otherwise)

    def next_position(self) -> int:
        """Of something that comes by in the forward order now."""
        self._next += 1
        return self._next - 1

    def position_of(self, module: torch.nn.Module) -> int:
        """Of a module whose output comes by now: its own tensors', where it has some."""
        held = (*module._parameters.values(), *module._buffers.values())
        return next((self._executed[id(t)] for t in held if t is not None and id(t) in self._executed), None) or self.next_position()

    def watch_order(self, on_module: Any) -> None:
        """Until stop(), notes the order in which modules run, and calls on_module() at each."""
        def entered(module: torch.nn.Module, _: Any) -> None:
            if compiling():
                return
            on_module()
            fresh = [t for t in (*module._parameters.values(), *module._buffers.values()) if t is not None and id(t) not in self._executed]
            if fresh:  # a module's own tensors take part together
                self._executed.update(dict.fromkeys(map(id, fresh), self.next_position()))

        for _, module in self.modules():
            self._handles.append(module.register_forward_pre_hook(Hook(entered)))

    def stop(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def _tensors(self, kind: str) -> Iterator[Tuple[str, Slot, torch.Tensor]]:
        seen, taken = set(), set()  # type: ignore[var-annotated]
        for prefix, root in self.roots:
            for path, module in root.named_modules():
                held = getattr(module, kind)
                for key, _ in held.items():
                    slot = Slot(held, key)
                    tensor = slot.now()
                    if tensor is not None and id(tensor) not in seen:
                        seen.add(id(tensor))
                        yield self._name(prefix, root, f"{path}.{key}" if path else key, taken), slot, tensor

    @classmethod
    def _name(cls, prefix: str, root: torch.nn.Module, name: str, taken: Set[str]) -> str:
        """Without what wrappers put in, and unlike those that are taken: {"a": ..., "a.b": ...} may give one name twice."""
        plain = unique = cls._plain_name(prefix, root, name)
        number = 1
        while unique in taken:
            number += 1
            unique = f"{plain}~{number}"
        taken.add(unique)
        return unique

    @staticmethod
    def _plain_name(prefix: str, root: torch.nn.Module, name: str) -> str:
        plain = _WRAPPERS.sub("", name + ".")[:-1] if name else name
        inner = getattr(root, "_orig_mod", root)
        while type(inner).__name__ in _AROUND and hasattr(inner, "module"):
            plain, inner = re.sub(r"^module(\.|$)", "", plain), inner.module
        return (prefix + plain) if plain else (prefix[:-1] or "model")
