"""Outputs of modules and their gradients, by pattern: measured where they exist, for they are gone before the step."""
from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Tuple, Union

import torch

from .. import native
from .hooks import Hook
from .models import compiling, dtype_of, transformed
from .tensors import UNSCALED

if TYPE_CHECKING:
    from .torch_watch import TorchWatch

__all__ = ["Activations"]

_MAX_OUTPUTS = 16  # of one module
_ROLES = native.ROLES["activation"], native.ROLES["activation_gradient"]


def _outputs(output: Any) -> List[Tuple[str, torch.Tensor]]:
    if isinstance(output, torch.Tensor):
        return [("", output)]
    if isinstance(output, dict):
        pairs = [(f".{key}", value) for key, value in output.items()]
    elif isinstance(output, (list, tuple)):
        pairs = [(f".{number}", value) for number, value in enumerate(output)]
    else:
        return []
    return [(key, value) for key, value in pairs if isinstance(value, torch.Tensor)][:_MAX_OUTPUTS]


class _Like:
    """What there is to declare of a tensor that is gone by then."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype, self.device = tensor.dtype, tensor.device
        self._numel: int = tensor.numel()
        self._complex: bool = tensor.is_complex()

    def numel(self) -> int:
        return self._numel

    def is_complex(self) -> bool:
        return self._complex


class Activations:
    def __init__(self, watch: "TorchWatch", patterns: Union[str, Iterable[str]], gradients: bool) -> None:
        self.watch, self.gradients = watch, gradients
        self.patterns = [patterns] if isinstance(patterns, str) else list(patterns)
        self._handles: List[Any] = []
        self._runs = 0
        self._seen: Dict[str, Tuple[Any, int]] = {}
        roots = {id(root) for _, root in watch._models.roots}
        for name, module in watch._models.modules():
            if id(module) not in roots and any(fnmatchcase(name, pattern) for pattern in self.patterns):
                self._handles.append(module.register_forward_hook(Hook(self._hook_of(name))))
        if not self._handles:
            watch._unobservable(f"activations: no module's name matches {', '.join(self.patterns)}")
        self.count = len(self._handles)

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()

    def attempt_ended(self) -> None:
        """After the first attempts without one: they can't be seen."""
        if self._runs == 0 and self.count and self.watch.attempt == 2:
            self.watch._unobservable("activations: their modules' hooks did not run (compiled, or not called by __call__)")

    def _hook_of(self, name: str) -> Any:
        def hook(module: torch.nn.Module, _: Any, output: Any) -> None:
            if compiling():
                return
            watch = self.watch
            # In backward this is a recomputation under checkpointing; in evaluation nothing is trained.
            if watch.closed or watch._gone or not module.training or torch._C._current_graph_task_id() != -1 or transformed():
                return
            with watch._guard():
                self._runs += 1
                for key, tensor in _outputs(output):
                    if dtype_of(tensor.dtype):
                        self._observe(module, name + key, tensor)

        return hook

    def declare(self) -> None:
        """Those that the first forward pass has shown, in its order."""
        for name, (tensor, index) in self._seen.items():
            for role in _ROLES:
                self.watch._table.declare(name, role, tensor, index=index)
        self._seen.clear()

    def _observe(self, module: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
        watch = self.watch
        if not watch._ordered:  # this pass teaches the order of everything, so that it can be declared at once
            if name not in self._seen:
                self._seen[name] = (_Like(tensor), watch._models.position_of(module))
            return
        made = watch._begin()
        number = watch._table.numbers.get((name, _ROLES[0]))
        if (name, _ROLES[0]) not in watch._table.numbers:
            index = watch._models.position_of(module)
            number, _ = (watch._table.declare(name, role, tensor, index=index) for role in _ROLES)
        if number is not None and made.wants(number):
            watch._table.measure(made, number, tensor.detach(), UNSCALED, transient=True)
        gradient = watch._table.numbers[name, _ROLES[1]]
        if self.gradients and gradient is not None and tensor.requires_grad:
            tensor.register_hook(self._gradient_hook(gradient))

    def _gradient_hook(self, number: int) -> Any:
        def hook(gradient: torch.Tensor) -> None:
            watch = self.watch
            if watch.closed or watch._gone or compiling() or transformed():
                return
            with watch._guard():
                made = watch._begin()
                if made.wants(number):
                    watch._table.measure(made, number, gradient.detach(), watch._scale_of_loss(), transient=True)

        return hook
