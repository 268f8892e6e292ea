"""Scalewatch in a PyTorch script: attach() and what it attaches."""
from .attaching import attach
from .torch_watch import TorchWatch

__all__ = ["TorchWatch", "attach"]
