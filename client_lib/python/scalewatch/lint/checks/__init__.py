"""The checks. One file each; a check is registered by its line in _MODULES."""

from __future__ import annotations

from . import (accumulation, autocast_backward, bypass, checkpoint, clip, division, exp, fixed_scale, half_parameters, log,
               missing_scaler, scheduler, softmax, sums, unscale, update)

_MODULES = (
    update,
    unscale,
    clip,
    accumulation,
    bypass,
    half_parameters,
    scheduler,
    fixed_scale,
    autocast_backward,
    missing_scaler,
    checkpoint,
    exp,
    log,
    softmax,
    division,
    sums,
)

CHECKS = tuple(module.run for module in _MODULES)
RULES = {rule.name: rule for module in _MODULES for rule in module.RULES}
