"""A learning rate scheduler of the script: whether its steps go with those of the optimizer.

They are seen from what the scheduler counts itself, and nothing is put on it: its state_dict() is everything that it holds."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Tuple

if TYPE_CHECKING:
    from .torch_watch import TorchWatch

__all__ = ["ScheduleWatch"]

_PER_BATCH = ("OneCycleLR", "CyclicLR")  # made to be stepped after every batch
_PATIENCE = 50  # attempts
_EPOCHS = 3


def _counted(scheduler: Any) -> Tuple[Any, ...]:
    """What changes with each step(): of torch's schedulers, of those that stand for several, of DeepSpeed's."""
    own = (getattr(scheduler, name, None) for name in ("_step_count", "last_epoch", "last_batch_iteration"))
    return (*own, *(_counted(one) for one in getattr(scheduler, "_schedulers", ())))


class ScheduleWatch:
    def __init__(self, watch: "TorchWatch", scheduler: Any) -> None:
        if not callable(getattr(scheduler, "step", None)):
            raise TypeError(f"scheduler: a learning rate scheduler, not {type(scheduler).__name__}")
        inner = getattr(scheduler, "scheduler", None)  # Accelerate's stands around one
        scheduler = inner if callable(getattr(inner, "step", None)) else scheduler
        self.watch, self.name, self._scheduler = watch, type(scheduler).__name__, scheduler
        self._last = _counted(scheduler)
        self._blind = all(one is None for one in self._last)
        if self._blind:
            watch._unobservable(f"steps of the scheduler {self.name}: it counts none")
        self._steps = self._attempts = self._since = self._epochs = 0
        self._skipped = False
        self._told = False

    def _look(self) -> None:
        """Whether it stepped since the last look."""
        now = _counted(self._scheduler)
        if now == self._last:
            return
        self._last = now
        self._steps += 1
        # Stepped after each attempt, the last one skipped: a scheduler that steps once an epoch is not meant.
        if self._skipped and self._since == 1:
            self.watch.misuse("scheduler_on_skip", f"{self.name}.step() after attempt {self._attempts}, which was skipped")
        self._since = 0

    def attempt_ended(self, skipped: bool) -> None:
        """An attempt is about to end: steps since the one before it are seen now."""
        self._look()
        self._attempts += 1
        self._since += 1
        self._skipped = skipped
        if self._steps == 0 and self.name in _PER_BATCH and self._attempts >= _PATIENCE:
            self._never(f"{self._attempts} attempts")

    def phase_changed(self, training: bool) -> None:
        """Training goes on after an evaluation: most likely another epoch."""
        self._look()
        if training:
            self._epochs += 1
            if self._steps == 0 and self._epochs >= _EPOCHS:
                self._never(f"{self._epochs} epochs")

    def _never(self, after: str) -> None:
        if not self._told and not self._blind:
            self._told = True
            self.watch.misuse("scheduler_never", f"{self.name}.step() was not called in {after}")
