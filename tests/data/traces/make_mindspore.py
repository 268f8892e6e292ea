#!/usr/bin/env python3
"""Makes mindspore/*.csv: mindspore.train.DynamicLossScaleManager of mindspore 2.10.0. `fatal` leads it into its error.

    pip install mindspore==2.10.0 && python3 make_mindspore.py
"""
from mindspore.train.loss_scale_manager import DynamicLossScaleManager

from sequences import make


class Scaler:
    def __init__(self, **setting):
        self.scaler = DynamicLossScaleManager(**setting)

    def scale(self):
        return self.scaler.get_loss_scale()

    def attempt(self, found_inf):
        self.scaler.update_loss_scale(found_inf)
        return found_inf

    def note(self):
        return f"growth_tracker={self.scaler.cur_iter - self.scaler.last_overflow_iter - 1}"


make("mindspore", [
    dict(init_loss_scale=2.0**24, scale_factor=2, scale_window=20),
    dict(init_loss_scale=64.0, scale_factor=2, scale_window=3),
    dict(init_loss_scale=1000.0, scale_factor=3, scale_window=10),
], Scaler, extra=[("fatal", [0, 1, 0] + 1010 * [1])])
