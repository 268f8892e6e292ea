#!/usr/bin/env python3
"""Makes jmp/*.csv: jmp.DynamicLossScale of jmp 0.0.4 on jax 0.10.2, CPU. max_scale names the dtype: 65504 is an fp16 array.

    pip install jmp==0.0.4 jax==0.10.2 && python3 make_jmp.py
"""
import jax.numpy as jnp
import jmp

from sequences import make


class Scaler:
    def __init__(self, loss_scale, max_scale=None, **setting):
        dtype = jnp.float16 if max_scale == 65504 else jnp.float32
        least = jnp.ones([], dtype)
        self.scaler = jmp.DynamicLossScale(jnp.asarray(loss_scale, dtype), min_loss_scale=least, **setting)

    def scale(self):
        return self.scaler.loss_scale

    def attempt(self, found_inf):
        gradient = jnp.float32(float("inf") if found_inf else 1.0)
        finite = jmp.all_finite(gradient)
        self.scaler = self.scaler.adjust(finite)
        return not finite

    def note(self):
        return f"growth_tracker={int(self.scaler.counter)}"


make("jmp", [
    dict(loss_scale=2.0**15, period=20, factor=2),
    dict(loss_scale=2.0**100, period=3, factor=2),
    dict(loss_scale=1000.0, period=10, factor=3),
    dict(loss_scale=2.0**15, period=20, factor=2, max_scale=65504),
], Scaler)
