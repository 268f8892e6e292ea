"""Hugging Face Trainer: Trainer(..., callbacks=[ScalewatchCallback(run="bert-fp16")])."""
from __future__ import annotations

import os
from typing import Any, Optional

from transformers import TrainerCallback

from .pytorch import TorchWatch, attach

__all__ = ["ScalewatchCallback"]


class ScalewatchCallback(TrainerCallback):  # type: ignore[misc]
    """Watches the trainer's model, optimizer and (with fp16) the GradScaler that Accelerate gave it. The step numbers are the
    trainer's. run: None = $SCALEWATCH_RUN, else the trainer's output folder. stop_on: "critical" or "warning" ends training at such
    a finding; None = never. options: those of scalewatch.attach. `watch` is the Watch once training has begun, None before.
    Raises ValueError for another stop_on; what attach raises comes when training begins; later nothing is raised unless
    options have strict=True."""

    def __init__(self, run: Optional[str] = None, *, stop_on: Optional[str] = None, **options: Any) -> None:
        if stop_on not in (None, "critical", "warning"):
            raise ValueError('stop_on: "critical", "warning" or None')
        self.run, self.stop_on, self.options = run, stop_on, options
        self.watch: Optional[TorchWatch] = None
        self._stop = False

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, lr_scheduler: Any = None,
                       **_: Any) -> None:
        self._stop = False
        scaler = getattr(optimizer, "scaler", None)
        run = self.run or os.environ.get("SCALEWATCH_RUN") or str(args.output_dir)
        self.watch = attach(model, optimizer, scaler, run=run, **self.options)
        if self.stop_on is not None:
            self.watch.on_finding(self._found)

    def _found(self, finding: Any) -> None:
        self._stop = self._stop or finding.severity == "critical" or finding.severity == self.stop_on

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.watch is not None:
            self.watch.set_step(state.global_step + 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._stop:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.watch is not None:
            self.watch.close()
