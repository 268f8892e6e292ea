"""What must hold over all watches of a process: ended quietly at its end, silent in its forked children, never two for one thing."""
from __future__ import annotations

import atexit
import logging
import os
import weakref
from typing import Any, Iterable

__all__ = ["register", "replace"]

_watches: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _at_exit() -> None:
    for watch in list(_watches):
        watch._at_exit()


def _after_fork_in_child() -> None:
    for watch in list(_watches):
        watch._forked()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork_in_child)


def register(watch: Any) -> None:
    """Has watch._at_exit() called at the interpreter's end and watch._forked() in forked children, while it lives."""
    _watches.add(watch)


def replace(objects: Iterable[Any], identity: Any) -> None:
    """Closes watches that hold one of the objects, or the same (server, run, rank): a notebook's cell was run again."""
    wanted = {id(thing) for thing in objects}
    for watch in list(_watches):
        if not watch.closed and (watch._identity == identity or wanted & watch._objects):
            if watch._models_held and not wanted & watch._models_held and watch._identity != identity:
                logging.getLogger("scalewatch").warning(
                    "scalewatch: run %s ends, for its scaler or optimizer was attached with another model: attach them together, as in "
                    "attach([g, d], [to_g, to_d], scaler)", watch.run)
            watch.close(timeout=1.0, reason="attached again")
