"""A Watch that follows a PyTorch training loop from the objects that it is given, and from nothing else in the process."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Set

import torch

from .. import lifetime, native
from ..watch import Watch
from .activations import Activations
from .carried import Carried
from .given import listed, names
from .gradients import GradOf
from .hooks import Hook
from .losses import Losses
from .models import Models, Slot, compiling, dtype_of, transformed
from .names import Names
from .optimizers import OptimizerWatch, plain_optimizer
from .precision import Precision
from .ranks import rank_and_world
from .scalers import ScalerWatch
from .schedules import ScheduleWatch
from .tensors import UNSCALED, Batch, Scale, Tensors

__all__ = ["TorchWatch"]

_ROLES = ("gradient", "parameter", "buffer", "optimizer_state", "activation", "activation_gradient")
# Parameters and optimizer state change little from one attempt to the next; each costs a pass over as much memory as gradients.
_EVERY = {"parameter": 10, "optimizer_state": 10}
_UNSEEN, _UNSEEN_AT_END = 1000, 20  # forward passes without a step that was seen, before it is said


def _now(item: Any) -> Any:
    return item.now() if type(item) is Slot else item


class TorchWatch(Watch):
    """What scalewatch.attach returns, which tells of the parameters: a Watch that follows the scaler and optimizers by itself. Used on
    the thread that trains. What of Watch is by hand (begin, observe, end, ...) may be called too, and adds to the open attempt."""

    def __init__(self, model: Any, optimizer: Any, scaler: Any, *, run: Optional[str], activations: Any, activation_gradients: bool,
                 every: Optional[Mapping[str, int]], scheduler: Any, grad_of: GradOf, rank: Optional[int], world_size: Optional[int],
                 **rest: Any) -> None:
        self._models = Models(model)
        given = listed(optimizer)
        optimizers = [plain_optimizer(one) for one in given]
        scalers = [one for one in listed(scaler) if one is not None]
        if len(scalers) > 1 and len(scalers) != len(optimizers):
            raise TypeError(f"{len(optimizers)} optimizers and {len(scalers)} scalers: give one scaler, or one for each optimizer in "
                            "the same order")
        every = {**_EVERY, **(every or {})}
        for role, count in every.items():
            if role not in _ROLES or count < 0:
                raise ValueError(f"every: a number of attempts (0 = never) by role, one of {', '.join(_ROLES)}")
        if grad_of is not None and not isinstance(grad_of, str) and not callable(grad_of):
            raise TypeError(f"grad_of: a name or a function, not {type(grad_of).__name__}")
        given_objects = [root for _, root in self._models.roots] + optimizers + scalers
        self._objects = frozenset(id(thing) for thing in given_objects)
        self._models_held = frozenset(id(root) for _, root in self._models.roots)
        lifetime.replace(given_objects, None)
        rank, world_size = rank_and_world(rank, world_size)
        super().__init__(run, rank=rank, world_size=world_size, framework=f"pytorch {torch.__version__}", **rest)
        self._keep = given_objects  # so that their ids stay theirs
        self._every = every
        self._grad_of = grad_of
        self._precision = Precision()
        self._losses = Losses()
        self._carried = Carried(self)
        self._looked_at: Set[int] = set()
        self._was_training = True
        self._ordered = False  # a forward pass has shown the order of things, or is not waited for any longer
        self._passes: Dict[int, int] = {}
        self._forwards = 0  # passes in training, while no step has been seen; -1 once one was
        self._early: List[Any] = []  # misuse before there is an attempt to tell it with
        self._names = Names(self._models, self.rank)
        self._table = Tensors(self._unobservable)
        self._table.position, self._table.copy_of, self._table.own_shard = self._names.position, self._names.copy_of, str(self.rank)
        self._scalers: List[ScalerWatch] = []
        self._optimizers: List[OptimizerWatch] = []
        self._handles: List[Any] = []
        self._schedules: List[ScheduleWatch] = []
        self._parameters: Optional[Batch] = None
        self._buffers: Optional[Batch] = None
        self._activations: Optional[Activations] = None
        try:
            for one, name in zip(scalers, names(scaler, len(scalers), "scaler")):
                self._scalers.append(ScalerWatch(self, one, name))
            for number, (one, name) in enumerate(zip(given, names(optimizer, len(optimizers), "optimizer"))):
                with_scaler = self._scalers[min(number, len(self._scalers) - 1)] if self._scalers else None
                if with_scaler is not None and not with_scaler.enabled:
                    with_scaler = None
                self._optimizers.append(OptimizerWatch(self, one, name, with_scaler))
            for _, root in self._models.roots:
                self._handles.append(root.register_forward_pre_hook(Hook(self._before_forward)))
                self._handles.append(root.register_forward_hook(Hook(self._after_forward)))
            self._models.watch_order(self._precision.look)
            if activations:
                self._activations = Activations(self, activations, activation_gradients)
            self._schedules = [ScheduleWatch(self, one) for one in listed(scheduler)]
        except BaseException:
            self.close(0)
            raise

    # -- what there is ----------------------------------------------------------------------------------------------------------

    def _optimizer_of(self, optimizer: Any) -> Optional[OptimizerWatch]:
        """What watches the optimizer; None for one that was not given to attach()."""
        return next((one for one in self._optimizers if one.optimizer is optimizer), None)

    def _declare(self, made: native.Native) -> None:
        unscaled: Optional[int] = None
        for scaler in self._scalers:
            if scaler.enabled:
                scaler.number = made.add_scaler(scaler.name, "pytorch", scaler.parameters())
        for one in self._optimizers:
            if one.scaler is None:
                if unscaled is None:
                    unscaled = made.add_scaler("none", "none", {})
                one.scaler_number = unscaled
            else:
                one.scaler_number = one.scaler.number
            one.number = made.add_optimizer(one.name, scaler=one.scaler_number, **one.facts())
        for role, count in self._every.items():
            if count != 1:
                made.add_sampling(native.ROLES[role], every=count or native.NEVER)
        self._table.native = made
        # All that is known before the first attempt begins, for then the client makes room for it.
        self._ordered = True
        self._models.stop()
        self._names.look()
        for one in self._optimizers:
            one.declare_gradients()
        self._look_at_model()
        if self._activations is not None:
            self._activations.declare()
        for kind, detail, raised in self._early:
            made.misuse(kind, detail, raised)
        self._early.clear()

    def _look_at_model(self) -> None:
        """Declares parameters and buffers as they are now: before the first attempt, and when an optimizer got others."""
        held: Dict[int, Any] = {id(p): (name, slot) for name, slot, p in self._models.parameter_slots()}
        for one in self._optimizers:
            for parameter in one.parameters():
                held.setdefault(id(parameter), (self._names.of(parameter, one), parameter))
        self._parameters = Batch(self._table, native.ROLES["parameter"], list(held.values()), _now, home=_now)
        floating = [(name, slot) for name, slot, buffer in self._models.buffer_slots() if dtype_of(buffer.dtype)]
        self._buffers = Batch(self._table, native.ROLES["buffer"], floating, _now, home=_now)
        for batch in (self._parameters, self._buffers):
            batch.prepare()

    def _parameters_changed(self) -> None:
        """An optimizer holds other parameters than it did."""
        self._names.look_again()
        self._look_at_model()

    def misuse(self, kind: str, detail: str = "", raised: bool = False) -> None:
        if self._native is None:
            self._early.append((kind, detail, raised))
        else:
            super().misuse(kind, detail, raised)

    def _started(self, seen: Optional[str] = None) -> native.Native:
        if self._native is None and not self.closed and not self._gone:
            scaled = any(scaler.enabled for scaler in self._scalers)
            self._compute_dtype = self._compute_dtype or self._precision.computes_in(self._models, scaled)
            gpu = next((p.device for _, p in self._models.parameters() if p.device.type == "cuda"), None)
            if gpu is not None and self._options.get("gpu_uuid") is None:
                uuid = getattr(torch.cuda.get_device_properties(gpu), "uuid", None)
                self._options["gpu_uuid"] = None if uuid is None else f"GPU-{uuid}"
        return super()._started(seen)

    # -- moments ----------------------------------------------------------------------------------------------------------------

    def _before_forward(self, module: torch.nn.Module, _: Any) -> None:
        if compiling() or self.closed or self._gone:
            return
        with self._guard():
            self._precision.look()
            for one in self._optimizers:
                one.forget_failed_step()
            if self._forwards >= 0 and module.training and torch.is_grad_enabled():
                self._forwards += 1
                self._say_unseen(_UNSEEN)
            if module.training and not self._ordered:
                passes = self._passes[id(module)] = self._passes.get(id(module), 0) + 1
                if passes > 1:  # another micro-batch
                    self._started()
            if module.training != self._was_training:
                self._was_training = module.training
                for schedule in self._schedules:
                    schedule.phase_changed(module.training)
                if self._native is not None:
                    self._native.set_phase(native.PHASES["train" if module.training else "eval"])

    def _after_forward(self, module: torch.nn.Module, _: Any, output: Any) -> None:
        if compiling() or self.closed or self._gone or not module.training or transformed():
            return
        if not any(scaler.enabled for scaler in self._scalers):
            try:
                loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
            except Exception:  # noqa: BLE001: a property of the script's own, which can't be asked here
                return
            if isinstance(loss, torch.Tensor) and loss.numel() == 1:
                with self._guard():
                    self._losses.add(loss, mean=True)

    def _say_unseen(self, limit: int) -> None:
        if self._forwards >= limit and self._optimizers:
            self._say(f"in {self._forwards} forward passes no step of its optimizers was seen: others may be stepped, or by another method "
                      "than step(), or within torch.compile")
            self._forwards = -1

    def add_loss(self, loss: torch.Tensor) -> None:
        """loss: a one-element tensor, unscaled, that backward runs from, of the open attempt: those of its micro-batches add up. scaler.scale(loss) tells it by
        itself. On a GPU it is copied, and read once the copy is there."""
        with self._guard():
            self._losses.add(loss)

    def set_loss(self, loss: Any) -> None:
        """loss: the unscaled one of the open attempt: a number or a one-element tensor. scaler.scale(loss) tells it by itself."""
        with self._guard():
            self._losses.set(loss)

    def observe(self, name: str, array: Any, role: str = "activation", scale: float = 1.0, forward_index: Optional[int] = None) -> None:
        if not isinstance(array, torch.Tensor):
            return super().observe(name, array, role, scale, forward_index)
        with self._guard():
            made = self._begin()
            index = self._models.next_position() if (name, native.ROLES[role]) not in self._table.numbers and forward_index is None else 0
            number = self._table.declare(name, native.ROLES[role], array, forward_index if forward_index is not None else index)
            if number is not None:
                self._table.measure(made, number, array.detach(), Scale(scale), transient=True)

    def _scale_of_loss(self) -> Scale:
        """What backward runs under now."""
        active = [scaler for scaler in self._scalers if scaler.enabled and scaler.active]
        return active[-1].scale_now() if active else UNSCALED

    def _before_plain_step(self, mine: OptimizerWatch) -> None:
        """Moment A of an optimizer that steps by itself."""
        made = self._begin()
        scaler = mine.scaler
        if scaler is not None and scaler.active and scaler.scaled_and_not_unscaled(mine):
            if mine.ever_scaled or len(self._optimizers) == 1:
                self.misuse("out_of_order", f"{mine.name}.step() was called itself, with gradients that still hold the scale: call "
                            "scaler.step(optimizer)")
        if not mine.measured:
            if not mine.has_gradients():
                parameters = mine.parameters()
                self.misuse("no_gradients", f"0 of {len(parameters)} parameters of {mine.name} have a gradient")
            mine.measure_gradients(made, scaler.scale_now() if scaler is not None and scaler.active else UNSCALED)
            made.measure_device()

    def _after_plain_step(self, mine: OptimizerWatch, outcome: int = native.APPLIED) -> None:
        """An optimizer has stepped by itself: without an active scaler the attempt ends."""
        made = self._begin()
        if mine.scaler is not None and mine.scaler.active:
            made.observe_optimizer(mine.scaler_number, mine.number, outcome=outcome)
            mine.outcome_told = True
            return  # the attempt ends with the scaler's update
        if mine.scaler is None:
            made.observe_scaler(mine.scaler_number, 1.0, 1.0)
        made.observe_optimizer(mine.scaler_number, mine.number, outcome=outcome)
        if not any(scaler.active for scaler in self._scalers):
            self._finish_attempt()

    def _scaler_updated(self) -> None:
        """The attempt ends with the last of the scalers that took part."""
        if all(scaler.updated for scaler in self._scalers if scaler.active):
            self._finish_attempt()

    def _finish_attempt(self) -> None:
        """Moment C: what the step changed, and the end of the attempt."""
        made = self._begin()
        self._forwards = -1
        try:
            self._moment_c(made)
        finally:  # whatever goes wrong there costs this attempt, and none after it
            if self._open:
                self._open = False
                made.end_attempt()
            if self._activations is not None:
                self._activations.attempt_ended()
            for scaler in self._scalers:
                scaler.new_attempt()
            for one in self._optimizers:
                one.new_attempt()

    def _moment_c(self, made: native.Native) -> None:
        loss = self._losses.take()
        if loss is not None:
            made.set_loss(loss)
        skipped = any(one.measured and one.scaler is not None and not one.may_have_stepped for one in self._optimizers)
        for schedule in self._schedules:
            schedule.attempt_ended(skipped)
        for batch in (self._parameters, self._buffers):
            if batch is not None:
                batch.measure(made)
        for one in self._optimizers:
            one.measure_state(made)

    # -- wrong use --------------------------------------------------------------------------------------------------------------

    def _look_at_parameters(self, mine: OptimizerWatch) -> None:
        """Once an optimizer: trainable parameters in fp16 under a scaler. Fused and sharded paths raise nothing."""
        if id(mine) in self._looked_at:
            return
        self._looked_at.add(id(mine))
        half = mine.half_parameters()
        if half:
            more = f" and {len(half) - 8} more" if len(half) > 8 else ""
            self.misuse("fp16_parameters", f"{', '.join(half[:8])}{more} of {mine.name}")

    # -- the end ----------------------------------------------------------------------------------------------------------------

    def _detach(self) -> None:
        self._say_unseen(_UNSEEN_AT_END)
        self._models.stop()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        parts: List[Any] = [self._carried, *self._optimizers, *self._scalers, *filter(None, (self._activations,))]
        for part in parts:
            with self._guard():
                part.detach()
        self._schedules = []
        self._keep = []
        self._objects = frozenset()
