"""What tensors are called, where they stand in the forward order, and which copy of them this rank holds."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import torch

from .models import Models

if TYPE_CHECKING:
    from .optimizers import OptimizerWatch

__all__ = ["Names"]

_NOT_RUN = 1_000_000  # positions of what the first forward pass did not come by begin here


class Names:
    def __init__(self, models: Models, rank: int) -> None:
        self._models, self._rank = models, rank
        self._names: Dict[int, str] = {}
        self._registered: Dict[int, int] = {}
        modules = [module for _, module in models.modules()]
        replicated = any(isinstance(m, torch.nn.parallel.DistributedDataParallel) for m in modules)
        sharded = any(type(m).__name__ == "FullyShardedDataParallel" for m in modules)
        self._copies: Tuple[Optional[str], Optional[str]] = (str(rank) if sharded and not replicated else None,
                                                             str(rank) if replicated else None)
        self.look()

    def look_again(self) -> None:
        """Everything anew: parameters were put in the place of others, whose ids may be theirs now."""
        self._names.clear()
        self._registered.clear()
        self.look()

    def look(self) -> None:
        """Takes up what was added to the model since."""
        for number, (name, tensor) in enumerate((*self._models.parameters(), *self._models.buffers())):
            self._names.setdefault(id(tensor), name)
            self._registered.setdefault(id(tensor), number)

    def of(self, parameter: torch.Tensor, optimizer: "OptimizerWatch") -> str:
        """A parameter's name in the model; of one that no given model holds, its place in the optimizer."""
        if id(parameter) not in self._names:
            self.look()
        if id(parameter) not in self._names:
            for g, group in enumerate(optimizer.optimizer.param_groups):
                for p, other in enumerate(group["params"]):
                    self._names.setdefault(id(other), f"{optimizer.name}.group{g}.{p}")
        return self._names.get(id(parameter), f"{optimizer.name}.{id(parameter)}")

    def position(self, tensor: Any) -> int:
        return self._models.position(tensor, _NOT_RUN + self._registered.get(id(tensor), 0))

    def copy_of(self, tensor: Any) -> Tuple[Optional[str], Optional[str]]:
        """(shard, replica) of a tensor on this rank: pieces of one whole are added up, copies are compared."""
        if hasattr(tensor, "_local_tensor"):
            sharded = any(placement.is_shard() for placement in tensor.placements)
            return (str(self._rank), None) if sharded else (None, str(self._rank))
        return self._copies
