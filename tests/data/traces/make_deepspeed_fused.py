#!/usr/bin/env python3
"""Makes deepspeed_fused/*.csv and deepspeed_unfused/*.csv: FP16_Optimizer and FP16_UnfusedOptimizer of deepspeed 0.14.0. Their
update of the scale needs neither torch nor a GPU, so only their own files are imported, with stand-ins for what they import, and
no optimizer is built around it.

    pip download --no-deps --no-binary :all: deepspeed==0.14.0 && tar xzf deepspeed-0.14.0.tar.gz
    python3 make_deepspeed_fused.py deepspeed-0.14.0
"""
import os
import sys
from unittest.mock import MagicMock

from sequences import make

for name in ("torch", "torch._utils", "deepspeed", "deepspeed.runtime.utils", "deepspeed.runtime.fp16",
             "deepspeed.runtime.fp16.loss_scaler", "deepspeed.utils", "deepspeed.checkpoint.constants", "deepspeed.accelerator",
             "deepspeed.moe", "deepspeed.moe.utils", "deepspeed.checkpoint"):
    sys.modules[name] = MagicMock()
sys.modules["deepspeed.runtime"] = MagicMock(DeepSpeedOptimizer=object)
sys.path.insert(0, os.path.join(sys.argv[1], "deepspeed", "runtime", "fp16"))
import fused_optimizer
import unfused_optimizer


def scaler_of(optimizer_class):
    class Scaler:
        def __init__(self, init_scale, scale_window, min_loss_scale):
            self.optimizer = optimizer_class.__new__(optimizer_class)
            self.optimizer.dynamic_loss_scale = True
            self.optimizer.cur_iter = 0
            self.optimizer.last_overflow_iter = -1
            self.optimizer.scale_factor = 2.0
            self.optimizer.verbose = False
            self.optimizer.cur_scale = init_scale
            self.optimizer.scale_window = scale_window
            self.optimizer.min_loss_scale = min_loss_scale

        def scale(self):
            return self.optimizer.cur_scale

        def attempt(self, found_inf):
            self.optimizer._update_scale(found_inf)
            return found_inf

        def note(self):
            return ""

    return Scaler


SETTINGS = [
    dict(init_scale=65536.0, scale_window=20, min_loss_scale=1.0),
    dict(init_scale=2.0**32, scale_window=7, min_loss_scale=0.25),
    dict(init_scale=3.0, scale_window=1, min_loss_scale=1.0),
]
make("deepspeed_fused", SETTINGS, scaler_of(fused_optimizer.FP16_Optimizer))
make("deepspeed_unfused", SETTINGS, scaler_of(unfused_optimizer.FP16_UnfusedOptimizer))
