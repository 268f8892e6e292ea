"""One GradScaler of the script: its calls in their order, its state at moments B and C, and wrong use of it.

Its attributes are looked up at each step: _scale is None before the first scale(), and update() drops every optimizer's found_inf.
"""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set

import torch

from .. import native
from .hooks import wrap
from .optimizers import OptimizerWatch, plain_optimizer
from .refusals import refusal
from .tensors import UNSCALED, Scale, scalar, stream_of

if TYPE_CHECKING:
    from .torch_watch import TorchWatch

__all__ = ["ScalerWatch"]

_NAN = float("nan")


class ScalerWatch:
    def __init__(self, watch: "TorchWatch", scaler: Any, name: str) -> None:
        for method in ("scale", "unscale_", "step", "update", "is_enabled", "load_state_dict"):
            if not callable(getattr(scaler, method, None)):
                raise TypeError(f"scaler: a torch.amp.GradScaler, not {type(scaler).__name__}")
        self.watch, self.scaler, self.name = watch, scaler, name
        self.number = 0
        self.stepping: Optional[OptimizerWatch] = None  # whose step() runs inside scaler.step()
        self.active = self.updated = False  # in the open attempt
        self._scale_calls = 0  # since the last update; the next two: how many there had been at the call
        self._stepped_at: Dict[int, int] = {}
        self._unscaled_at: Dict[int, int] = {}
        self._peeked = False  # get_scale() was called since the last update: the loss may be scaled by hand
        self._unscaled_only: Set[int] = set()  # optimizers that were unscaled and not stepped before the last update
        self._updates = 0
        self._restored = False
        self._fresh = True  # no scale() so far
        self._before: Optional[float] = None
        self._undo = [wrap(scaler, "scale", self._on_scale), wrap(scaler, "unscale_", self._on_unscale),
                      wrap(scaler, "step", self._on_step), wrap(scaler, "update", self._on_update),
                      wrap(scaler, "get_scale", self._on_get_scale), wrap(scaler, "load_state_dict", self._on_load)]

    def detach(self) -> None:
        for undo in reversed(self._undo):
            undo()

    @property
    def enabled(self) -> bool:
        return bool(self.scaler.is_enabled())

    def parameters(self) -> Dict[str, float]:
        scaler = self.scaler
        return {"init_scale": float(scaler._init_scale), "growth_factor": float(scaler.get_growth_factor()),
                "backoff_factor": float(scaler.get_backoff_factor()), "growth_interval": float(scaler.get_growth_interval())}

    def scale_now(self) -> Scale:
        tensor = getattr(self.scaler, "_scale", None)
        if tensor is None:
            return UNSCALED
        return Scale(scalar(tensor), tensor if tensor.device.type != "cpu" else None)

    # -- the calls --------------------------------------------------------------------------------------------------------------

    def _off(self) -> bool:
        return self.watch.closed or self.watch._gone or not self.enabled

    def _on_scale(self, original: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._off():
            with self.watch._guard():
                self._before_scale(outputs)
        return original(outputs, *args, **kwargs)

    def _on_get_scale(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        self._peeked = True
        return original(*args, **kwargs)

    def _on_load(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        self._restored = True
        return original(*args, **kwargs)

    def _on_unscale(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if self._off() or self.stepping is not None:
            return original(optimizer, *args, **kwargs)
        mine = None
        with self.watch._guard():
            mine = self._known(optimizer)
            if mine is not None:
                self._moment_a(mine)
        try:
            result = original(optimizer, *args, **kwargs)
        except Exception as error:
            self._refused(error, mine)
            raise
        finally:
            if mine is not None:
                mine.let_go()
        self._unscaled_at[id(mine)] = self._scale_calls
        return result

    def _on_step(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if self._off():
            return original(optimizer, *args, **kwargs)
        mine = None
        with self.watch._guard():
            mine = self._known(optimizer)
            if mine is not None:
                self._moment_a(mine)
                self._before_step(mine)
        self.stepping = mine
        try:
            result = original(optimizer, *args, **kwargs)
        except Exception as error:
            self.stepping = None
            self._refused(error, mine)
            raise
        finally:
            self.stepping = None
            if mine is not None:
                mine.let_go()
        self._stepped_at[id(mine)] = self._scale_calls
        with self.watch._guard():
            # Fused optimizers, and scalers whose assertion was taken out, step by nothing at all.
            if mine is not None and not mine.has_gradients():
                self.watch.misuse("no_gradients", self._gradients_of(mine))
        return result

    def _on_update(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        if self._off():
            return original(*args, **kwargs)
        with self.watch._guard():
            self._moment_b(args[0] if args else kwargs.get("new_scale"))
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            self._refused(error, None)
            raise
        with self.watch._guard():
            self._moment_c()
        self.watch._deliver()
        return result

    # -- what they mean ---------------------------------------------------------------------------------------------------------

    def _known(self, optimizer: Any) -> Optional[OptimizerWatch]:
        mine = self.watch._optimizer_of(plain_optimizer(optimizer))
        if mine is None or mine.scaler is not self:
            self.watch._unobservable(f"an optimizer ({type(optimizer).__name__}) that was not given to attach() with its scaler")
            return None
        mine.stepped_by_scaler = optimizer
        return mine

    def _mine(self) -> List[OptimizerWatch]:
        return [o for o in self.watch._optimizers if o.scaler is self]

    def _before_scale(self, outputs: Any) -> None:
        self.active = True
        if self._fresh:
            self._fresh = False
            self._look_for_resume()
        self._scale_calls += 1
        for one in outputs if isinstance(outputs, (list, tuple)) else (outputs,):
            if isinstance(one, torch.Tensor) and one.numel() == 1:
                self.watch.add_loss(one)

    def _look_for_resume(self) -> None:
        """Optimizers that have stepped before, and a scaler that is as it was made."""
        scaler = self.scaler
        default = inspect.signature(type(scaler).__init__).parameters.get("init_scale")
        as_made = (scaler._scale is None and scaler._init_growth_tracker == 0
                   and (default is None or float(scaler._init_scale) == float(default.default)))
        if self._restored or not as_made:
            return
        resumed = [o.name for o in self._mine() if any(o.inner.state.values())]
        if resumed:
            self.watch.misuse("scaler_not_restored", f"{', '.join(resumed)} went on from a checkpoint, {self.name} starts anew at "
                              f"{float(scaler._init_scale):g}")

    def _moment_a(self, mine: OptimizerWatch) -> None:
        made = self.watch._begin()
        self.active = True
        mine.ever_scaled = True
        if not mine.measured:
            scaled = self._scale_calls > 0 or self._peeked
            mine.measure_gradients(made, self.scale_now() if scaled else UNSCALED)
            made.measure_device()
            self.watch._look_at_parameters(mine)

    def _before_step(self, mine: OptimizerWatch) -> None:
        mine.stepped = False
        if self._scale_calls == 0 and not self._peeked and self.scaler._scale is not None and not self._stepped_at:
            if id(mine) in self._unscaled_only:
                self.watch.misuse("out_of_order", f"{mine.name}: update() came between unscale_() and step(): its gradients are "
                                  "divided by the scale twice")
            else:
                self.watch.misuse("step_without_scale", f"{mine.name}: no scale() since the last update()")

    def _moment_b(self, new_scale: Any) -> None:
        made = self.watch._begin()
        self.active = True
        scaler = self.scaler
        tensor = scaler._scale
        if new_scale is not None:
            value = scalar(new_scale) if isinstance(new_scale, (int, float, torch.Tensor)) else None
            if value is not None and not 0 < value < float("inf"):
                self.watch.misuse("bad_scale", f"update({value})")
        self._before = None
        on_gpu = False
        if tensor is not None:
            self._before = scalar(tensor)
            if self._before is None:
                on_gpu = self.watch._table.on_gpu(tensor.device)
                if on_gpu:
                    made.observe_scaler_device(self.number, tensor.device.index, stream_of(tensor.device), before=tensor.data_ptr())
        for mine in self._mine():
            if id(mine) in self._stepped_at:
                on_gpu |= self._tell_outcome(made, mine)
        if on_gpu:
            made.measure_device()

    def _tell_outcome(self, made: native.Native, mine: OptimizerWatch) -> bool:
        """found_inf and what became of the step; True when it lies on a GPU."""
        mine.outcome_told = True
        found = list(self.scaler._per_optimizer_states[id(mine.stepped_by_scaler)]["found_inf_per_device"].values())
        sharded = type(self.scaler).__name__ == "ShardedGradScaler"  # reduces in place: what was local is gone
        values = [scalar(one) for one in found]
        if found and all(value is not None for value in values):
            decided = float(sum(value for value in values if value is not None))
            made.observe_optimizer(self.number, mine.number, _NAN if sharded else decided, decided, mine.outcome(decided))
            return False
        if found and self.watch._table.on_gpu(found[0].device):
            at = getattr(found[0], "_local_tensor", found[0]).data_ptr()  # of several devices the first stands for all
            device = found[0].device
            made.observe_optimizer_device(self.number, mine.number, device.index, stream_of(device), None if sharded else at, at,
                                          mine.outcome(None))
            return True
        made.observe_optimizer(self.number, mine.number, outcome=mine.outcome(None))
        return False

    def _moment_c(self) -> None:
        made = self.watch._begin()
        scaler = self.scaler
        tensor, tracker = scaler._scale, scaler._growth_tracker
        after = scalar(tensor) if tensor is not None else None
        if after is not None and self._before is not None:
            value = scalar(tracker) if tracker is not None else None
            made.observe_scaler(self.number, self._before, after, -1 if value is None else int(value))
        elif tensor is not None and self.watch._table.on_gpu(tensor.device):
            at = tracker.data_ptr() if tracker is not None and tracker.device == tensor.device else None
            made.observe_scaler_device(self.number, tensor.device.index, stream_of(tensor.device), after=tensor.data_ptr(),
                                       growth_tracker=at)
        if after is None or after != self._before:
            self.watch._carried.scale_changed([o for o in self._mine() if id(o) not in self._stepped_at], self._before, after)
        self._unscaled_only = {o for o in self._unscaled_at if o not in self._stepped_at}
        self._scale_calls = 0
        self._peeked = False
        self._stepped_at.clear()
        self._unscaled_at.clear()
        self._updates += 1
        self.updated = True
        self.watch._scaler_updated()

    def _gradients_of(self, mine: OptimizerWatch) -> str:
        return f"{mine.gradient_count()} of {len(mine.parameters())} parameters of {mine.name} have a gradient"

    def _refused(self, error: Exception, mine: Optional[OptimizerWatch]) -> None:
        """PyTorch refused the call: told with the attempt, which ends here."""
        with self.watch._guard():
            kind = refusal(text := str(error))
            if kind is None:  # the optimizer's own error: if the script goes on, its next gradients are looked at
                if mine is not None:
                    mine.measured = False
                return
            again = mine is not None and self._scale_calls > self._stepped_at.get(id(mine), self._scale_calls)
            if kind in ("step_twice", "unscale_after_step") and again:
                kind = "update_missing"
            if kind == "update_without_checks" and self._updates and self._scale_calls == 0:
                kind = "update_twice"
            detail = f"{mine.name}: {text}" if mine is not None else text
            if kind == "fp16_parameters" and mine is not None:
                detail += f" {', '.join(mine.half_parameters()[:8])}"
            if kind == "no_inf_checks" and mine is not None:
                detail += f" {self._gradients_of(mine)}"
            made = self.watch._begin()
            self.watch.misuse(kind, detail[:512], True)
            now = self.scale_now()
            if now.value is not None and now.tensor is None and self.scaler._scale is not None:
                made.observe_scaler(self.number, now.value, now.value)
            for one in self._mine():
                if id(one) in self._stepped_at and not one.outcome_told:
                    self._tell_outcome(made, one)
            self.watch._finish_attempt()

    def scaled_and_not_unscaled(self, mine: OptimizerWatch) -> bool:
        """Whether gradients of the optimizer hold the scale, as far as the calls tell."""
        return self._scale_calls > 0 and id(mine) not in self._unscaled_at and id(mine) not in self._stepped_at

    def new_attempt(self) -> None:
        self.active = self.updated = False
