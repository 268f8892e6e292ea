"""Scalewatch in a PyTorch script: attach() and what it attaches."""
from .attach import TorchWatch, attach

__all__ = ["TorchWatch", "attach"]
