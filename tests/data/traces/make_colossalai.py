#!/usr/bin/env python3
"""Makes colossalai/*.csv: DynamicGradScaler of colossalai 0.5.0, whose package wants a GPU's libraries: only the files of the
class are imported, with stand-ins for its logger and its choice of device.

    pip install torch==2.5.1 numpy && pip download --no-deps colossalai==0.5.0 && tar xzf colossalai-0.5.0.tar.gz
    python3 make_colossalai.py colossalai-0.5.0
"""
import os
import sys
import types

import torch

from sequences import make

for name in ("colossalai", "colossalai.accelerator", "colossalai.logging"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["colossalai.accelerator"].get_accelerator = lambda: types.SimpleNamespace(
    get_current_device=lambda: torch.device("cpu"), device_count=lambda: 1)
sys.modules["colossalai.logging"].get_dist_logger = lambda: types.SimpleNamespace(info=lambda *a, **k: None)
sys.path.insert(0, os.path.join(sys.argv[1], "colossalai", "amp", "naive_amp"))
from grad_scaler import DynamicGradScaler


class Scaler:
    def __init__(self, **setting):
        self.scaler = DynamicGradScaler(**setting)

    def scale(self):
        return self.scaler.scale.item()

    def attempt(self, found_inf):
        self.scaler.update(found_inf)
        return found_inf

    def note(self):
        left = self.scaler._hysteresis - self.scaler._hysteresis_step
        return f"growth_tracker={self.scaler._growth_step} hysteresis={left}"


make("colossalai", [
    dict(initial_scale=65536.0, growth_interval=20),
    dict(initial_scale=65536.0, growth_interval=5, min_scale=1.0, max_scale=2.0**32, hysteresis=3),
    dict(initial_scale=3.0, growth_factor=1.7, backoff_factor=0.3, growth_interval=10, hysteresis=1),
], Scaler)
