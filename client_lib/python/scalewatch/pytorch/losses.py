"""The loss of an attempt, without waiting for a GPU."""
from __future__ import annotations

from typing import Any, List, Optional

import torch

from .tensors import Tensors, scalar

__all__ = ["Losses"]


class Losses:
    """Those of an attempt's micro-batches add up, for backward runs from each; a model's own loss is their mean, for it is divided by
    their number only later."""

    def __init__(self) -> None:
        self._sum, self._count, self._mean = 0.0, 0, False
        self._copies: List[Any] = []  # (event, pinned value) of those that lie on a GPU

    def add(self, loss: torch.Tensor, mean: bool = False) -> None:
        self._mean = mean
        value = scalar(loss)
        if value is not None:
            self._sum += value
            self._count += 1
        elif Tensors.on_gpu(loss.device) and not torch.cuda.is_current_stream_capturing():
            kept = torch.empty((), dtype=torch.float32, pin_memory=True)
            kept.copy_(loss.detach().reshape(()), non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            self._copies.append((event, kept))

    def set(self, loss: Any) -> None:
        self.clear()
        if isinstance(loss, torch.Tensor):
            self.add(loss)
        else:
            self._sum, self._count = float(loss), 1

    def clear(self) -> None:
        self._sum, self._count, self._mean = 0.0, 0, False
        self._copies.clear()

    def take(self) -> Optional[float]:
        """The attempt's loss; None when none was told, or a copy is still on its way. GradScaler's own look at found_inf has waited
        for the stream by now, so that without a fused optimizer the copies are there."""
        ready = [kept for event, kept in self._copies if event.query()]
        count = self._count + len(ready)
        total = self._sum + sum(float(kept) for kept in ready)
        known = count > 0 and len(ready) == len(self._copies)
        mean = self._mean
        self.clear()
        return None if not known else total / count if mean else total
