#!/usr/bin/env python3
"""Makes flax/*.csv: flax.training.dynamic_scale.DynamicScale of flax 0.12.8 on jax 0.10.2, CPU.

    pip install flax==0.12.8 jax==0.10.2 && python3 make_flax.py
"""
import jax
import jax.numpy as jnp
from flax.training.dynamic_scale import DynamicScale

from sequences import make


@jax.jit
def backward(scaler, slope):
    return scaler.value_and_grad(lambda x: x * slope)(jnp.float32(1))


class Scaler:
    def __init__(self, **setting):
        self.scaler = DynamicScale(**setting)

    def scale(self):
        return self.scaler.scale

    def attempt(self, found_inf):
        slope = float("inf") if found_inf else 0.0
        self.scaler, finite, _, _ = backward(self.scaler, slope)
        return not finite

    def note(self):
        return f"growth_tracker={int(self.scaler.fin_steps)}"


make("flax", [
    dict(scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=20),
    dict(scale=2.0**100, growth_factor=2.0, backoff_factor=0.5, growth_interval=3),
    dict(scale=3.0, growth_factor=1.7, backoff_factor=0.3, growth_interval=10, minimum_scale=0.001),
], Scaler)
