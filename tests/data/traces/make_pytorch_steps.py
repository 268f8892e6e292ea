#!/usr/bin/env python3
"""Makes pytorch/*.csv: torch.amp.GradScaler("cpu") of torch 2.5.1, one optimizer, an update each step.

    pip install torch==2.5.1 numpy && python3 make_pytorch_steps.py
"""
import torch

from sequences import make


class Counting(torch.optim.SGD):
    steps = 0

    def step(self):
        self.steps += 1


class Scaler:
    def __init__(self, **setting):
        self.scaler = torch.amp.GradScaler("cpu", **setting)
        self.scaler.scale(torch.ones(1))  # makes the scale
        self.parameter = torch.nn.Parameter(torch.zeros(1))
        self.optimizer = Counting([self.parameter], lr=1.0)

    def scale(self):
        return self.scaler.get_scale()

    def attempt(self, found_inf):
        before = self.optimizer.steps
        self.parameter.grad = torch.tensor([float("inf") if found_inf else 1.0])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.optimizer.steps == before

    def note(self):
        return f"growth_tracker={self.scaler._get_growth_tracker()}"


make("pytorch", [
    dict(init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=20),
    dict(init_scale=2.0**100, growth_factor=2.0, backoff_factor=0.5, growth_interval=3),
    dict(init_scale=3.0, growth_factor=1.7, backoff_factor=0.3, growth_interval=10),
], Scaler)
