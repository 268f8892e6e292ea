"""Scalewatch tells that mixed-precision training goes wrong, where it began, and what to do.

    import scalewatch
    watch = scalewatch.attach(model, optimizer, scaler, run="resnet50-fp16")
    ...  # the training loop as it was

The server is $SCALEWATCH_SERVER, else 127.0.0.1:7462. Without PyTorch, scalewatch.Watch takes arrays by hand."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .answers import Advice, Finding, Point, Questions, ServerError, table
from .native import ScalewatchError, version
from .watch import StopTraining, Watch

__all__ = ["Advice", "Finding", "Point", "Questions", "ScalewatchError", "ServerError", "StopTraining", "Watch", "attach", "table",
           "version"]
__version__ = "0.1.0"


if TYPE_CHECKING:
    from .pytorch.attaching import attach
else:

    def __getattr__(name):
        if name != "attach":
            raise AttributeError(f"module 'scalewatch' has no attribute {name!r}")
        from .pytorch import attach  # only now: scalewatch itself needs no PyTorch
        globals()[name] = attach
        return attach
