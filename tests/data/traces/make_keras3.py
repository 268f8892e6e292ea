#!/usr/bin/env python3
"""Makes keras3/*.csv: keras.optimizers.LossScaleOptimizer of keras 3.15.1 on torch 2.5.1, CPU.

    pip install keras==3.15.1 torch==2.5.1 && python3 make_keras3.py
"""
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

from sequences import make


class Scaler:
    def __init__(self, **setting):
        self.optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), **setting)
        self.variable = keras.Variable([0.0], dtype="float32")
        self.optimizer.build([self.variable])

    def scale(self):
        return self.optimizer.dynamic_scale.numpy()

    def attempt(self, found_inf):
        before = int(self.optimizer.inner_optimizer.iterations.numpy())
        self.optimizer.apply([torch.tensor([float("inf") if found_inf else 1.0])], [self.variable])
        return int(self.optimizer.inner_optimizer.iterations.numpy()) == before

    def note(self):
        return f"growth_tracker={int(self.optimizer.step_counter.numpy())}"


make("keras3", [
    dict(initial_scale=2.0**15, dynamic_growth_steps=20),
    dict(initial_scale=2.0**100, dynamic_growth_steps=3),
    dict(initial_scale=3.0, dynamic_growth_steps=10),
], Scaler)
