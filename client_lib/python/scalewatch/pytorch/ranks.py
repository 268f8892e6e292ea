"""Which rank this process is, of how many."""
from __future__ import annotations

import os
from typing import Optional, Tuple

import torch

__all__ = ["rank_and_world"]


def rank_and_world(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """What was given, else what torch.distributed says, else the environment of torchrun and Slurm's launchers, else (0, 1)."""
    if rank is not None:
        return rank, _found()[1] if world_size is None else world_size
    found = _found()
    return found[0], found[1] if world_size is None else world_size


def _found() -> Tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    for own, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        try:
            told = int(os.environ[own]), int(os.environ[size])
        except (KeyError, ValueError):
            continue
        if 0 <= told[0] < told[1]:
            return told
    return 0, 1
