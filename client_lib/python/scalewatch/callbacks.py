"""Findings that reach the script while it trains."""
from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Dict, List, Optional

from .answers import Finding, Questions, ServerError
from .guard import log

__all__ = ["Callbacks", "StopTraining"]

_POLL_SECONDS = 1.0
_MAX_WAITING = 1000  # findings that no attempt has delivered yet


class StopTraining(Exception):
    """Raise it from an on_finding callback to leave the training loop: it passes through to the script."""


class Callbacks:
    """A thread asks the server once a second; deliver() hands over on the trainer's thread what it found."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self.called: List[Callable[[Finding], Any]] = []
        self.waiting: List[Finding] = []
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def add(self, callback: Callable[[Finding], Any], ask: bool) -> None:
        self.called.append(callback)
        if self._thread is None and ask:
            self._thread = threading.Thread(target=_poll, args=(weakref.ref(self), self._questions, self._ended), name="scalewatch",
                                            daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def deliver(self, strict: bool) -> None:
        """StopTraining passes; other exceptions are logged, unless strict."""
        while self.waiting:
            finding = self.waiting.pop(0)
            for callback in list(self.called):
                try:
                    callback(finding)
                except StopTraining:
                    raise
                except Exception as error:  # noqa: BLE001: the trainer must not pay for a monitor's callback
                    if strict:
                        raise
                    log.warning("scalewatch: an on_finding callback raised %s: %s", type(error).__name__, error)


def _poll(whose: "weakref.ref[Callbacks]", questions: Questions, ended: threading.Event) -> None:
    """Does not keep what it works for: a callback may hold the watch and its model, which nobody needs to close."""
    seen: Dict[str, str] = {}
    while not ended.wait(_POLL_SECONDS):
        try:
            found = questions.findings(open_only=True)
        except ServerError:
            found = []
        callbacks = whose()
        if callbacks is None:
            return
        for one in found:
            if seen.get(one.id) != one.severity and len(callbacks.waiting) < _MAX_WAITING:
                seen[one.id] = one.severity
                callbacks.waiting.append(one)
        del callbacks
