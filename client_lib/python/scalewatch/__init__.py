"""Scalewatch tells that mixed-precision training goes wrong, where it began, and what to do.

    import scalewatch
    watch = scalewatch.attach(model, optimizer, scaler, run="resnet50-fp16")
    ...  # the training loop as it was

The server is $SCALEWATCH_SERVER, else 127.0.0.1:7462. Without PyTorch, scalewatch.Watch takes arrays by hand."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .answers import Advice, Finding, Point, Questions, ServerError, table
from .native import ScalewatchError, version
from .watch import StopTraining, Watch

__all__ = ["Advice", "Finding", "Point", "Questions", "ScalewatchError", "ServerError", "StopTraining", "Watch", "attach", "table",
           "version"]
__version__ = "0.1.0"


if TYPE_CHECKING:
    from .pytorch import attach
else:

    def attach(model: Any, optimizer: Any = None, scaler: Any = None, *, run: str, **options: Any) -> Any:
        """Watches a PyTorch training loop that stays as it is; returns a Watch. scalewatch.pytorch.attach tells of all options."""
        from .pytorch import attach as attach_pytorch  # only here: scalewatch itself needs no PyTorch
        return attach_pytorch(model, optimizer, scaler, run=run, **options)
