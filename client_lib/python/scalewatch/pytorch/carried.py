"""Gradients that an optimizer keeps while the scale changes, and that the next backward adds to."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, Optional

import torch

if TYPE_CHECKING:
    from .torch_watch import TorchWatch
    from .optimizers import OptimizerWatch

__all__ = ["Carried"]


class Carried:
    def __init__(self, watch: "TorchWatch") -> None:
        self._watch = watch
        self._handles: Dict[int, Any] = {}

    def detach(self) -> None:
        for handle in self._handles.values():
            handle.remove()
        self._handles.clear()

    def scale_changed(self, optimizers: Iterable["OptimizerWatch"], before: Optional[float], after: Optional[float]) -> None:
        """These optimizers have not stepped at the attempt whose update changed the scale. Whether their gradients are added to is seen
        when backward does it, by a hook on one parameter that goes then."""
        scales = f" from {before:g} to {after:g}" if before is not None and after is not None else ""
        for mine in optimizers:
            held = next((p for p in mine.parameters() if mine.gradient(p) is not None and p.requires_grad), None)
            if held is not None and id(mine) not in self._handles:
                self._handles[id(mine)] = held.register_hook(self._hook(mine, held, scales))

    def _hook(self, mine: "OptimizerWatch", held: torch.Tensor, scales: str) -> Any:
        def arrives(_: Any) -> None:
            handle = self._handles.pop(id(mine), None)
            if handle is None:
                return
            handle.remove()
            with self._watch._guard():
                left = mine.gradient(held)
                # Zeroed, as far as can be seen without waiting for a GPU.
                if left is None or left.device.type == "cpu" and not bool(left.count_nonzero()):
                    return
                self._watch.misuse("scale_changed", f"the scale went{scales} while {mine.name} accumulated")

        return arrives
