"""What the computation runs in, where nobody says so."""
from __future__ import annotations

from typing import Dict, Optional

import torch

from .models import Models, dtype_of

__all__ = ["Precision"]


class Precision:
    def __init__(self) -> None:
        self._seen: Optional[str] = None  # that autocast ran in

    def look(self) -> None:
        """Within a forward pass: whether it runs under autocast."""
        if self._seen is None:
            for device in ("cuda", "cpu"):
                if torch.is_autocast_enabled(device):
                    self._seen = dtype_of(torch.get_autocast_dtype(device))

    def computes_in(self, models: Models, scaled: bool) -> str:
        """What autocast was seen in, else that of a scaler, else what most of the parameters are."""
        if self._seen is not None:
            return self._seen
        if scaled:
            return "float16"
        counts: Dict[str, int] = {}
        for _, parameter in models.parameters():
            name = dtype_of(parameter.dtype)
            if name:
                counts[name] = counts.get(name, 0) + parameter.numel()
        return max(counts, key=lambda name: counts[name]) if counts else "float32"
