#!/usr/bin/env python3
"""Makes pytorch.csv: what the real torch.amp.GradScaler("cpu") does on random sequences of calls with two optimizers.

    pip install torch numpy && python3 make_pytorch.py > pytorch.csv

A sequence begins with `sequence,init_scale,growth_factor,backoff_factor,growth_interval`. Each line after it is one iteration
of a trainer: `gradient0,gradient1,calls,results,scale,growth_tracker,unscaled0`.
- gradient0, gradient1: what one backward adds to each optimizer's only gradient, before scaling; `-` = it has no gradient.
  Gradients are zeroed at the start of the iteration.
- calls, one letter each: S scale and backward; u, v unscale_ optimizer 0, 1; s, t step optimizer 0, 1; U update;
  N update(1024); R save the scaler's state and go on with a new scaler that loaded it.
- results, one letter a call: a applied, k skipped, E refused with an exception, . done.
- scale and growth_tracker after the iteration; unscaled0: optimizer 0's gradient after it, `-` = none.
Floats have 9 significant digits, which is exact for fp32.
"""
import random
import sys

import torch

SEED = 20240613
NEW_SCALE = 1024.0
# What trainers do: plain, unscale_ first, either order, accumulation, one optimizer only, a GAN's two losses.
PATTERNS = ["SstU", "SsU", "StsU", "SusvtU", "SuvstU", "SSsU", "SSSuvstU", "SsStU", "SvtU", "SusN", "RSstU", "SstURSsU"]


class Counting(torch.optim.Optimizer):
    def __init__(self, parameter):
        super().__init__([parameter], {})
        self.steps = 0

    def step(self):
        self.steps += 1


def number(value):
    return "%.9g" % value


class Sequence:
    def __init__(self, init, growth, backoff, interval):
        self.options = dict(growth_factor=growth, backoff_factor=backoff, growth_interval=interval)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init, **self.options)
        self.parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
        self.optimizers = [Counting(parameter) for parameter in self.parameters]
        print("sequence", number(init), repr(growth), repr(backoff), interval, sep=",")

    def call(self, letter, gradients):
        if letter == "S":
            upstream = self.scaler.scale(torch.ones(1))
            for parameter, gradient in zip(self.parameters, gradients):
                if gradient is not None:
                    scaled = upstream * gradient
                    parameter.grad = scaled if parameter.grad is None else parameter.grad + scaled
        elif letter in "uv":
            self.scaler.unscale_(self.optimizers["uv".index(letter)])
        elif letter in "st":
            optimizer = self.optimizers["st".index(letter)]
            before = optimizer.steps
            self.scaler.step(optimizer)
            return "a" if optimizer.steps > before else "k"
        elif letter == "U":
            self.scaler.update()
        elif letter == "N":
            self.scaler.update(NEW_SCALE)
        else:
            state = self.scaler.state_dict()
            self.scaler = torch.amp.GradScaler("cpu")
            self.scaler.load_state_dict(state)
        return "."

    def iterate(self, gradients, calls):
        for parameter in self.parameters:
            parameter.grad = None
        results = ""
        for letter in calls:
            try:
                results += self.call(letter, gradients)
            except (RuntimeError, AssertionError, ValueError):
                results += "E"
        unscaled = self.parameters[0].grad
        print(*("-" if gradient is None else number(gradient) for gradient in gradients), calls, results,
              number(self.scaler.get_scale()), self.scaler._get_growth_tracker(),
              "-" if unscaled is None else number(unscaled.item()), sep=",")


def any_gradient(chooser, bad):
    if chooser.random() < bad:
        return chooser.choice([float("inf"), float("-inf"), float("nan")])
    if chooser.random() < 0.03:
        return None
    return float(torch.tensor(chooser.uniform(-4, 4), dtype=torch.float32))


def main():
    sys.stdout.write(f'# pytorch: torch.amp.GradScaler("cpu") of torch {torch.__version__.split("+")[0]}, by make_pytorch.py, seed {SEED}\n')
    chooser = random.Random(SEED)
    for _ in range(200):
        sequence = Sequence(chooser.choice([65536.0, 2.0**15, 1.0, 3.0, 2.0**100]), chooser.choice([2.0, 1.5, 2.5]),
                            chooser.choice([0.5, 0.8]), chooser.choice([1, 2, 3, 5]))
        bad = chooser.choice([0.0, 0.1, 0.1, 0.4])
        for _ in range(14):
            calls = chooser.choice(PATTERNS)
            if chooser.random() < 0.2:  # not what trainers should do
                calls = "".join(chooser.choice("SSuvstUNR") for _ in range(7))
            sequence.iterate([any_gradient(chooser, bad), any_gradient(chooser, bad)], calls)
    vanishing = Sequence(65536.0, 2.0, 0.5, 2000)
    for _ in range(168):
        vanishing.iterate([float("nan"), 1.0], "SsU")
    growing = Sequence(2.0**120, 2.0, 0.5, 1)
    for _ in range(10):
        growing.iterate([0.5, 1.0], "SsU")


if __name__ == "__main__":
    main()
