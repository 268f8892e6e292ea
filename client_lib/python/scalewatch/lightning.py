"""Lightning: Trainer(..., callbacks=[ScalewatchCallback(run="resnet-fp16")])."""
from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, Optional

from .pytorch import TorchWatch, attach

__all__ = ["ScalewatchCallback"]

# Two packages of one library, each with a Callback of its own: the one that the script has imported.
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_base: Any = importlib.import_module(next((name for name in _PACKAGES if name in sys.modules), None) or next(
    (name for name in _PACKAGES if importlib.util.find_spec(name.partition(".")[0])), "pytorch_lightning")).Callback


class ScalewatchCallback(_base):  # type: ignore[misc]
    """Watches the module, its optimizers and (with precision="16-mixed") the GradScaler of Lightning. The step numbers are the
    trainer's. run: None = $SCALEWATCH_RUN, else the module's class. stop_on: "critical" or "warning" ends training at such a finding; None = never.
    options: those of scalewatch.attach. `watch` is the Watch once training has begun, None before. Raises ValueError for another
    stop_on; what attach raises comes when training begins; later nothing is raised unless options have strict=True."""

    def __init__(self, run: Optional[str] = None, *, stop_on: Optional[str] = None, **options: Any) -> None:
        super().__init__()
        if stop_on not in (None, "critical", "warning"):
            raise ValueError('stop_on: "critical", "warning" or None')
        self.run, self.stop_on, self.options = run, stop_on, options
        self.watch: Optional[TorchWatch] = None
        self._scaled = self._stop = False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._stop = False
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self._scaled = scaler is not None
        self.watch = attach(pl_module, list(trainer.optimizers), scaler,
                            run=self.run or os.environ.get("SCALEWATCH_RUN") or type(pl_module).__name__,
                            rank=trainer.global_rank, world_size=trainer.world_size, **self.options)
        if self.stop_on is not None:
            self.watch.on_finding(self._found)

    def _found(self, finding: Any) -> None:
        self._stop = self._stop or finding.severity == "critical" or finding.severity == self.stop_on

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.watch is not None:
            self.watch.set_step(trainer.global_step + 1)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        if self.watch is not None and not self._scaled:
            self.watch.add_loss(loss)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._stop:
            trainer.should_stop = True

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self.watch is not None and self.watch.attempt:
            self.watch.set_phase("eval")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self.watch is not None and self.watch.attempt:
            self.watch.set_phase("train")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.watch is not None:
            self.watch.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self.watch is not None:
            self.watch.close(reason=type(exception).__name__)
