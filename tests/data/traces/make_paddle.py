#!/usr/bin/env python3
"""Makes paddle/*.csv and paddle_static/*.csv: paddle.amp.GradScaler of paddlepaddle 3.3.1 on CPU in dygraph, and the operator
update_loss_scaling that static graphs run.

    pip install paddlepaddle==3.3.1 'numpy<2.3' && python3 make_paddle.py
"""
from unittest import mock

import paddle
from paddle import _C_ops

from sequences import make


class Dygraph:
    def __init__(self, **setting):
        # It disables itself unless the device is a GPU: it is told so while it is made.
        with mock.patch("paddle.amp.grad_scaler._dygraph_tracer"):
            self.scaler = paddle.amp.GradScaler(**setting)

    def scale(self):
        return self.scaler._scale.item()

    def attempt(self, found_inf):
        # What its check of the gradients, a GPU kernel, would have found.
        self.scaler._cache_found_inf = found_inf
        self.scaler._update()
        return found_inf

    def note(self):
        left = self.scaler._decr_every_n_nan_or_inf - self.scaler._decr_count
        return f"growth_tracker={self.scaler._incr_count} hysteresis={left}"


class Kernel:
    def __init__(self, init_loss_scaling, incr_ratio, decr_ratio, incr_every_n_steps, decr_every_n_nan_or_inf):
        self.setting = (incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio)
        self.value = paddle.to_tensor([init_loss_scaling], dtype="float32")
        self.good = paddle.to_tensor([0], dtype="int32")
        self.bad = paddle.to_tensor([0], dtype="int32")

    def scale(self):
        return self.value.item()

    def attempt(self, found_inf):
        gradient = [paddle.ones([1])]
        _C_ops.update_loss_scaling_(gradient, paddle.to_tensor([found_inf]), self.value, self.good, self.bad, *self.setting, False)
        return float(gradient[0].item()) == 0  # it makes the gradients zero on a skip

    def note(self):
        return f"growth_tracker={self.good.item()} hysteresis={self.setting[1] - self.bad.item()}"


SETTINGS = [
    dict(init_loss_scaling=65536.0, incr_ratio=2.0, decr_ratio=0.5, incr_every_n_steps=20, decr_every_n_nan_or_inf=1),
    dict(init_loss_scaling=32768.0, incr_ratio=2.0, decr_ratio=0.5, incr_every_n_steps=3, decr_every_n_nan_or_inf=2),
    dict(init_loss_scaling=3.0, incr_ratio=1.7, decr_ratio=0.3, incr_every_n_steps=10, decr_every_n_nan_or_inf=3),
]
make("paddle", SETTINGS, Dygraph)
make("paddle_static", SETTINGS, Kernel)
