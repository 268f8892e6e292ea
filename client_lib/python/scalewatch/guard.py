"""Keeps this library's errors from the trainer."""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Optional

from . import native

if TYPE_CHECKING:
    from .watch import Watch

__all__ = ["Guard", "log"]

log = logging.getLogger("scalewatch")


class Guard:
    """`with Guard(watch):` errors within are logged and swallowed, unless the watch is strict. What is no Exception passes. One thread
    at a time is within, for the client library takes no more: a model may be trained by several."""

    __slots__ = ("watch",)

    def __init__(self, watch: "Watch") -> None:
        self.watch = watch

    def __enter__(self) -> None:
        self.watch._lock.acquire()

    def __exit__(self, kind: Any, error: Optional[BaseException], _: Any) -> bool:
        self.watch._lock.release()
        if error is None or not isinstance(error, Exception):
            return False
        watch = self.watch
        if watch._gone or isinstance(error, native.ScalewatchError) and error.status in (native.FORKED, native.STOPPED):
            return True
        if watch.strict:
            return False
        watch._failed(error)
        return True
