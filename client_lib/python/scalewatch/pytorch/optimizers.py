"""One optimizer of the script: its gradients at moment A, its state after the step, and what became of the step."""
from __future__ import annotations

import operator
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import torch

from .. import native
from .gradients import gradient_of
from .hooks import wrap
from .models import compiling, dtype_of
from .tensors import Batch, Scale, scalar

if TYPE_CHECKING:
    from .torch_watch import TorchWatch
    from .scalers import ScalerWatch

__all__ = ["OptimizerWatch", "plain_optimizer"]


def plain_optimizer(given: Any) -> torch.optim.Optimizer:
    """The torch.optim.Optimizer itself, where a framework gives it wrapped (Accelerate, Fabric, Lightning)."""
    for _ in range(8):
        inner = getattr(given, "optimizer", None)
        if not isinstance(inner, torch.optim.Optimizer):
            break
        given = inner
    if not isinstance(given, torch.optim.Optimizer):
        raise TypeError(f"optimizer: a torch.optim.Optimizer, not {type(given).__name__}")
    return given


def _on_stack(frame: Any) -> bool:
    """Whether a frame is of a call that has not ended, in this thread."""
    here: Any = None if frame is None else sys._getframe(1)
    while here is not None and here is not frame:
        here = here.f_back
    return here is not None


class OptimizerWatch:
    def __init__(self, watch: "TorchWatch", given: Any, name: str, scaler: Optional["ScalerWatch"]) -> None:
        """given: the optimizer, or what a framework gives in place of it."""
        self.watch, self.optimizer, self.name = watch, plain_optimizer(given), name
        optimizer = self.optimizer
        self.scaler = scaler  # None: it steps without one
        self.scaler_number = self.number = 0
        self.measured = self.stepped = False  # in the open attempt: gradients at A; its own step() ran
        self.ever_scaled = False  # its scaler stepped it at least once
        self.outcome_told = False
        self.stepped_by_scaler: Any = optimizer  # what its scaler.step() was given: what found_inf is kept by
        self._ever_stepped = False  # its own step() was seen
        self._within: Dict[int, Any] = {}  # by thread: the frame in which its step() runs
        self.fused = bool(getattr(optimizer, "_step_supports_amp_scaling", False) or optimizer.defaults.get("fused"))
        self._gradients: Optional[Batch] = None
        self.gradient: Callable[[Any], Any] = gradient_of(watch._grad_of, self.parameters())
        self._state: Optional[Batch] = None
        self._declared: List[List[torch.Tensor]] = []  # the groups' parameters at the last look
        self._state_size = -1
        self._handles: List[Any] = []
        self._undo: Optional[Callable[[], None]] = None
        self._outer = False  # what is around the optimizer is watched, not its own step()
        if hasattr(optimizer, "_optimizer_step_pre_hooks"):
            self._handles = [optimizer.register_step_pre_hook(self._before_step), optimizer.register_step_post_hook(self._after_step)]
        else:  # a class of the script's own that leaves torch's __init__ out
            self._undo = wrap(optimizer, "step", self._around_own_step)
        # DeepSpeed's ZeRO steps on flat copies and lets the gradients of the model's parameters go before: looked at as its step begins.
        known = {id(p) for _, p in watch._models.parameters()}
        self._flat = callable(watch._grad_of) and not any(id(p) in known for p in self.parameters())
        if self._flat and given is not optimizer and callable(getattr(given, "step", None)):
            self._outer = True
            self._undo = wrap(given, "step", self._around_step)

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        if self._undo is not None:
            self._undo()

    # -- what it holds ----------------------------------------------------------------------------------------------------------

    def parameters(self) -> List[torch.Tensor]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def measured_parameters(self) -> List[torch.Tensor]:
        """Those whose gradients are measured: its own, or the models' where it holds flat copies of them."""
        if self._flat:
            return [p for _, p in self.watch._models.parameters() if p.requires_grad]
        return self.parameters()

    @property
    def inner(self) -> torch.optim.Optimizer:
        """The one that steps and holds the state: itself, or what ZeroRedundancyOptimizer keeps of it on this rank."""
        inner = getattr(self.optimizer, "optim", None)
        return inner if isinstance(inner, torch.optim.Optimizer) else self.optimizer

    def facts(self) -> Dict[str, Any]:
        """What add_optimizer takes."""
        group = {**self.optimizer.param_groups[0], **next(iter(self.inner.param_groups), {})}
        beta1, beta2 = (tuple(group.get("betas") or ()) + (None, None))[:2]
        if beta1 is None:
            beta1 = group.get("momentum")
        dtypes = {native.DTYPES[n] for n in (dtype_of(p.dtype) for p in self.parameters()) if n}
        numbers = {"beta1": beta1, "beta2": beta2, **{key: group.get(key) for key in ("lr", "eps", "weight_decay")}}
        known = {key: scalar(value) for key, value in numbers.items() if isinstance(value, (int, float, torch.Tensor))}
        return {"class_name": type(self.inner).__name__, "state_dtypes": sorted(dtypes)[:16], "fused": self.fused, **known}

    def has_gradients(self) -> bool:
        gradient = self.gradient  # asked at each step: usually the first has one
        if self._flat:
            return any(gradient(p) is not None for p in self.measured_parameters())
        return any(gradient(p) is not None for group in self.optimizer.param_groups for p in group["params"])

    def gradient_count(self) -> int:
        """How many of its parameters have one."""
        return sum(self.gradient(p) is not None for p in self.measured_parameters())

    def half_parameters(self) -> List[str]:
        return [self.watch._names.of(p, self) for p in self.parameters() if p.dtype is torch.float16 and p.requires_grad]

    # -- moments ----------------------------------------------------------------------------------------------------------------

    def declare_gradients(self) -> None:
        self._declared = [list(group["params"]) for group in self.optimizer.param_groups]
        self._state_size = -1
        items = [(self.watch._names.of(p, self), p) for p in self.measured_parameters()]
        self.gradient = gradient_of(self.watch._grad_of, (p for _, p in items))
        plain = not any(hasattr(p, "main_grad") for _, p in items) and self.watch._grad_of is None

        def like(parameter: Any) -> Any:  # what is frozen may thaw: declared once it has a gradient
            return parameter if parameter.requires_grad else self.gradient(parameter)

        # Elsewhere than in p.grad it may be of another type and size than the parameter: declared as it is found.
        self._gradients = Batch(self.watch._table, native.ROLES["gradient"], items, self.gradient, home=like if plain else self.gradient,
                                place=lambda p: p, optimizer=self.name)
        self._gradients.prepare()

    def _holds_others(self) -> bool:
        """Whether parameters were added or replaced since the last look."""
        groups = self.optimizer.param_groups
        return len(groups) != len(self._declared) or any(
            len(group["params"]) != len(before) or not all(map(operator.is_, group["params"], before))
            for group, before in zip(groups, self._declared))

    def measure_gradients(self, made: native.Native, scale: Scale) -> None:
        """Moment A: gradients as backward left them, once an attempt."""
        self.measured = True
        groups = self.optimizer.param_groups
        if self._holds_others():
            self.watch._parameters_changed()
            self.declare_gradients()
        if self._gradients is not None:
            self._gradients.measure(made, scale)
        lr = scalar(groups[0].get("lr", float("nan")))
        if lr is not None and lr == lr:
            made.set_lr(lr)

    def let_go(self) -> None:
        """The step that gradients were measured for is done."""
        if self._gradients is not None:
            self._gradients.let_go()

    def measure_state(self, made: native.Native) -> None:
        """Moment C: its state tensors, where there are any."""
        state = self.inner.state
        if len(state) != self._state_size:
            self._state_size = len(state)
            role = native.ROLES["optimizer_state"]
            items: List[Tuple[str, Any]] = []
            for parameter, held in state.items():
                if not isinstance(held, dict) or not isinstance(parameter, torch.Tensor):
                    continue
                name = self.watch._names.of(parameter, self)
                for key, value in held.items():
                    if isinstance(value, torch.Tensor) and value.numel() > 1 and dtype_of(value.dtype):
                        items.append((f"{name}.{key}", (parameter, key)))
                        self.watch._table.declare(f"{name}.{key}", role, value, optimizer=self.name, like=parameter)

            def current(item: Tuple[Any, str]) -> Any:  # looked up each time: load_state_dict puts others in their place
                held = self.inner.state.get(item[0])
                return held.get(item[1]) if held else None

            self._state = Batch(self.watch._table, role, items, current, home=current, optimizer=self.name)
        if self._state is not None:
            self._state.measure(made)
            self._state.let_go()

    def _around_step(self, original: Any, *arguments: Any, **keywords: Any) -> Any:
        """The step of what stands around the optimizer, which steps within once, once a group, or (an overflow) not at all."""
        off = self.watch.closed or self.watch._gone
        if not off:
            with self.watch._guard():
                self.watch._before_plain_step(self)
        result = original(*arguments, **keywords)
        if not off:
            with self.watch._guard():
                self.watch._after_plain_step(self, native.APPLIED if self.stepped else native.SKIPPED)
            self.watch._deliver()
        return result

    def _around_own_step(self, original: Any, *arguments: Any, **keywords: Any) -> Any:
        self._before_step(self.optimizer, (self.optimizer, *arguments), keywords)
        result = original(*arguments, **keywords)
        self._after_step(self.optimizer, (self.optimizer, *arguments), keywords)
        return result

    @property
    def may_have_stepped(self) -> bool:
        """In the open attempt. torch.compile around step() hides it."""
        return self.stepped or not self._ever_stepped

    def outcome(self, found_inf: Optional[float]) -> int:
        """What became of its step under a scaler that found so many bad gradients; None = not known here. UNKNOWN where found_inf, which
        the server is told too, says more than what was seen: of fused steps, and of those that torch.compile hides."""
        if self.fused or not self.stepped and (not self._ever_stepped or found_inf == 0):
            return native.UNKNOWN
        return native.APPLIED if self.stepped else native.SKIPPED

    def _before_step(self, _: Any, arguments: Any, keywords: Any) -> None:
        if compiling():
            return
        with self.watch._guard():
            thread = threading.get_ident()
            if self.watch.closed or self.watch._gone or _on_stack(self._within.get(thread)):
                return  # super().step() in a step() of the script's own: both have hooks
            self._within[thread] = sys._getframe(1)
            self.stepped = self._ever_stepped = True
            if self._outer or self.scaler is not None and self.scaler.stepping is self:
                return  # what is around it has seen to everything
            if len(arguments) > 1 and callable(arguments[1]) or keywords.get("closure") is not None:
                return  # backward comes within the step
            self.watch._before_plain_step(self)

    def _after_step(self, _: Any, arguments: Any, keywords: Any) -> None:
        if compiling() or self.watch.closed or self.watch._gone:
            return
        if self._within.get(threading.get_ident()) is not sys._getframe(1):
            return
        del self._within[threading.get_ident()]
        if self._outer or self.scaler is not None and self.scaler.stepping is self:
            return
        with self.watch._guard():
            if not self.measured:
                self.watch._before_plain_step(self)
            self.watch._after_plain_step(self)
        self.watch._deliver()

    def forget_failed_step(self) -> None:
        """Its step() raised, and the script goes on: the gradients are not held any longer (memory may be what there was too little of),
        and those of the next step are looked at."""
        failed = self._within.get(threading.get_ident())
        if failed is not None and not _on_stack(failed):
            del self._within[threading.get_ident()]
            self.measured = False
            self.let_go()

    def new_attempt(self) -> None:
        self.let_go()
        self.measured = self.stepped = self.outcome_told = False
