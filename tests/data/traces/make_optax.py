#!/usr/bin/env python3
"""Makes optax/*.csv: optax.apply_if_finite of optax 0.2.8 on jax 0.10.2, CPU. It has no scale: 1 throughout.

    pip install optax==0.2.8 jax==0.10.2 && python3 make_optax.py
"""
import jax
import jax.numpy as jnp
import optax

from sequences import make


class Scaler:
    def __init__(self, **setting):
        self.transform = optax.apply_if_finite(optax.trace(0.5), **setting)
        self.state = self.transform.init(jnp.zeros(1))
        self.update = jax.jit(self.transform.update)

    def scale(self):
        return 1.0

    def attempt(self, found_inf):
        updates = jnp.array([float("inf") if found_inf else 1.0])
        updates, self.state = self.update(updates, self.state)
        return bool((updates == 0).all())  # a rejected update is zeros; ours never are

    def note(self):
        return ""


make("optax", [dict(max_consecutive_errors=2), dict(max_consecutive_errors=5), dict(max_consecutive_errors=0)], Scaler)
