"""A learning rate scheduler of the script: whether its steps go with those of the optimizer."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .hooks import wrap

if TYPE_CHECKING:
    from .torch_watch import TorchWatch

__all__ = ["ScheduleWatch"]

_PER_BATCH = ("OneCycleLR", "CyclicLR")  # made to be stepped after every batch
_PATIENCE = 50  # attempts
_EPOCHS = 3


class ScheduleWatch:
    def __init__(self, watch: "TorchWatch", scheduler: Any) -> None:
        if not callable(getattr(scheduler, "step", None)):
            raise TypeError(f"scheduler: a learning rate scheduler, not {type(scheduler).__name__}")
        self.watch, self.name = watch, type(scheduler).__name__
        self._steps = self._attempts = self._since = self._epochs = 0
        self._skipped = False
        self._told = False
        self._undo = wrap(scheduler, "step", self._on_step)

    def detach(self) -> None:
        self._undo()

    def _on_step(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        with self.watch._guard():
            if not self.watch.closed and not self.watch._gone:
                self._steps += 1
                # Stepped after each attempt, this one skipped: a scheduler that steps once an epoch is not meant.
                if self._skipped and self._since == 1:
                    self.watch.misuse("scheduler_on_skip", f"{self.name}.step() after attempt {self.watch.attempt}, which was skipped")
                self._since = 0
        return original(*args, **kwargs)

    def attempt_ended(self, skipped: bool) -> None:
        self._attempts += 1
        self._since += 1
        self._skipped = skipped
        if self._steps == 0 and self.name in _PER_BATCH and self._attempts >= _PATIENCE:
            self._never(f"{self._attempts} attempts")

    def phase_changed(self, training: bool) -> None:
        """Training goes on after an evaluation: most likely another epoch."""
        if training:
            self._epochs += 1
            if self._steps == 0 and self._epochs >= _EPOCHS:
                self._never(f"{self._epochs} epochs")

    def _never(self, after: str) -> None:
        if not self._told:
            self._told = True
            self.watch.misuse("scheduler_never", f"{self.name}.step() was not called in {after}")
