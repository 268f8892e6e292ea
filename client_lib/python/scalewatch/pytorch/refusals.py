"""What PyTorch's GradScaler says when it refuses a call, and what it means."""
from __future__ import annotations

from typing import Optional

__all__ = ["refusal"]

_REFUSALS = (("unscale_() has already been called", "unscale_twice"), ("unscale_() is being called after step()", "unscale_after_step"),
             ("step() has already been called", "step_twice"), ("No inf checks were recorded for this optimizer", "no_inf_checks"),
             ("No inf checks were recorded prior to update", "update_without_checks"),
             ("Attempting to unscale FP16 gradients", "fp16_parameters"), ("Attempted step but _scale is None", "step_without_scale"),
             ("Attempted unscale_ but _scale is None", "step_without_scale"),
             ("Attempted update but _scale is None", "update_without_checks"), ("new_scale should be", "bad_scale"))


def refusal(text: str) -> Optional[str]:
    """The kind of misuse that an exception's text tells of; None for one that is not the scaler's."""
    return next((kind for words, kind in _REFUSALS if words in text), None)
