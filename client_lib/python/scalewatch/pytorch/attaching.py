"""attach(): the one line in a training script."""
from __future__ import annotations

import warnings
from typing import Any, Iterable, Mapping, Optional, Union

from .gradients import GradOf
from .torch_watch import TorchWatch

__all__ = ["attach"]


def attach(model: Any, optimizer: Any = None, scaler: Any = None, *, run: Optional[str] = None, server: Optional[str] = None, strict: bool = False,
           activations: Union[None, str, Iterable[str]] = None, activation_gradients: bool = True, scheduler: Any = None,
           every: Optional[Mapping[str, int]] = None, grad_of: GradOf = None, compute_dtype: Optional[str] = None,
           labels: Optional[Mapping[str, str]] = None, rank: Optional[int] = None, world_size: Optional[int] = None,
           http: Optional[str] = None, **options: Any) -> TorchWatch:
    """Watches a training loop that stays as it is.

    model: a module, or a list or mapping of them (a GAN's). optimizer, scaler: one, or lists or mappings of them; several scalers
    belong to the optimizers in the same order. scaler None (or disabled): an attempt is each optimizer step, else each
    scaler.update(). scheduler: learning rate schedulers whose steps are to be compared with skips.
    run: the run's name, 1 to 256 bytes; None = $SCALEWATCH_RUN. server: host:port; None = $SCALEWATCH_SERVER, else
    127.0.0.1:7462. http: its HTTP API, for questions; None = $SCALEWATCH_HTTP, else the server's host at port 9464.
    activations: patterns of module names ("*" matches any characters) whose outputs, and unless activation_gradients is False
    their gradients, are measured; None = none. every: by role, measure every so many attempts (0 = never); by default
    parameters and optimizer_state every 10, all others at each. grad_of: where gradients are when the optimizer steps: the name
    of a parameter's attribute, or a function of a parameter that gives its gradient (or this rank's part of it; None = there is
    none), e.g. deepspeed.utils.safe_get_full_grad; None = p.grad, else p.main_grad (Megatron, Apex) where there is one. Of an
    optimizer that holds none of the models' parameters (flat copies) a function is asked for those of the models. compute_dtype: "float16", "bfloat16", "float32", ...; None = seen under autocast, else float16 with a scaler, else the
    parameters'. rank, from 0, and world_size, the number of ranks: None = torch.distributed's, else those of the environment. labels:
    up to 32, they reach every alert. strict: errors of this library are raised, not logged. options: as scalewatch.Watch.

    Call it after wrapping (DDP, FSDP) and moving the model. What it puts on the objects given is undone by close(). Nothing
    waits for a GPU or the server. Raises TypeError and ValueError for wrong arguments; later nothing is raised into training
    unless strict (then scalewatch.ScalewatchError)."""
    if optimizer is None:
        warnings.warn("scalewatch.attach without an optimizer sees no step: give attach(model, optimizer, scaler)", stacklevel=2)
    return TorchWatch(model, optimizer, scaler, run=run, server=server, strict=strict, activations=activations,
                      activation_gradients=activation_gradients, scheduler=scheduler, every=every, grad_of=grad_of,
                      compute_dtype=compute_dtype, labels=labels, rank=rank, world_size=world_size, http=http, **options)
