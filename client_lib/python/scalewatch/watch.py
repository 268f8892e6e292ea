"""A run that is watched, whatever trains it: attempts and tensors by hand, questions to the server, callbacks, the end."""
from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

from . import lifetime, native
from .answers import Finding, Point, Questions, ServerError
from .arrays import view

__all__ = ["StopTraining", "Watch"]

log = logging.getLogger("scalewatch")

_POLL_SECONDS = 1.0
_MAX_WAITING = 1000  # findings that no attempt has delivered yet


class StopTraining(Exception):
    """Raise it from an on_finding callback to leave the training loop: it passes through to the script."""


class Watch:
    """One run. Methods that answer questions (findings, history, ...) wait for the server and raise ServerError; add_scaler and
    add_optimizer, called before training, raise ScalewatchError; all others never raise unless strict. Only close and wait_durable
    wait, for at most the time given. Used on one thread, the trainer's; questions from any."""

    def __init__(self, run: str, server: Optional[str] = None, *, http: Optional[str] = None, rank: int = 0, world_size: int = 1,
                 compute_dtype: Optional[str] = None, labels: Optional[Mapping[str, str]] = None, strict: bool = False,
                 framework: str = "python", **options: Any) -> None:
        """run: 1 to 256 bytes. server: host:port; None = $SCALEWATCH_SERVER, else 127.0.0.1:7462. http: address of its HTTP API,
        for questions; None = $SCALEWATCH_HTTP, else the server's host at port 9464. compute_dtype: "float16", "bfloat16",
        "float32", ...: what the computation runs in; None = float16. options: buffer_bytes, ring_attempts, spool_dir,
        spool_bytes, measure_threads, job_id and gpu_uuid of scalewatch.h.

        Raises ValueError for an argument out of range. An unknown server is no error: it is looked for when the first attempt
        begins, and training goes on without it."""
        if not run or len(run.encode()) > 256 or not run.isprintable():
            raise ValueError("run: a name of 1 to 256 bytes without control characters")
        if not 0 <= rank < max(1, world_size):
            raise ValueError(f"rank {rank} is not within the world of {world_size}")
        if compute_dtype is not None and compute_dtype not in native.DTYPES:
            raise ValueError(f"compute_dtype {compute_dtype!r}: one of {', '.join(native.DTYPES)}")
        self.run, self.rank, self.world_size, self.strict = run, rank, world_size, strict
        self.attempt = 0  # number of the attempt that is open, or was last
        self.not_observable: List[str] = []  # what could not be watched, and why
        self._questions = Questions(run, server, http)
        self._compute_dtype, self._framework, self._options = compute_dtype, framework, dict(options)
        self._options.update(server=server, labels=labels)
        self._native: Optional[native.Native] = None
        self._open = self.closed = self._gone = self._complained = False
        self._step: Optional[int] = None
        self._tensors: Dict[Tuple[str, int], int] = {}
        self._callbacks: List[Callable[[Finding], Any]] = []
        self._waiting: List[Finding] = []
        self._stop_polling = threading.Event()
        self._poller: Optional[threading.Thread] = None
        self._objects: FrozenSet[int] = getattr(self, "_objects", frozenset())
        self._identity = (self._questions.server, run, rank)
        lifetime.replace([], self._identity)
        lifetime.register(self)

    # -- attempts and tensors, by hand ------------------------------------------------------------------------------------------

    def add_scaler(self, name: str = "default", policy: str = "pytorch", **parameters: float) -> int:
        """Declares a loss scaler before the first attempt and returns its number. policy "none": nothing is scaled."""
        return self._started().add_scaler(name, policy, parameters)

    def add_optimizer(self, name: str = "default", class_name: Optional[str] = None, scaler: int = 0, **numbers: Any) -> int:
        """Declares an optimizer before the first attempt and returns its number. numbers: lr, beta1, beta2, eps, weight_decay."""
        return self._started().add_optimizer(name, class_name, scaler, **numbers)

    def begin(self, step: Optional[int] = None) -> None:
        """Opens the next attempt. step: the trainer's own number, which may repeat; None = counted from 1."""
        with self._guard():
            self._begin(step)

    def observe(self, name: str, array: Any, role: str = "activation", scale: float = 1.0, forward_index: Optional[int] = None) -> None:
        """Measures an array in the open attempt, now. name: 1 to 512 bytes, unique with the role. array: anything with DLPack,
        __cuda_array_interface__ or __array_interface__ (NumPy, CuPy, JAX, PyTorch), any shape, float64 to float8; nothing is
        copied. role: gradient, parameter, activation, activation_gradient, optimizer_state or buffer. scale: what its values
        were multiplied by. forward_index: position in the order that values flow; None = the order of first observations."""
        with self._guard():
            number = native.ROLES[role]
            at = view(array)
            made = self._begin()
            tensor = self._tensors.get((name, number))
            if tensor is None:
                index = len(self._tensors) if forward_index is None else forward_index
                tensor = made.add_tensor(name, number, at.dtype, at.numel, index)
                self._tensors[name, number] = tensor
            if at.device is not None:
                sizes, strides = ((), ()) if at.contiguous else (at.sizes, at.strides)
                made.observe_device(tensor, at.address, at.numel, at.device, at.stream, scale=scale, transient=True, sizes=sizes,
                                    strides=strides)
            elif at.contiguous:
                made.observe(tensor, at.address, at.numel, scale)
            else:
                made.observe_strided(tensor, at.address, at.sizes, at.strides, scale)

    def observe_scaler(self, before: float, after: float, growth_tracker: int = -1, scaler: int = 0) -> None:
        """What the scaler did at the open attempt: the scale in force, and after its update."""
        with self._guard():
            self._begin().observe_scaler(scaler, before, after, growth_tracker)

    def observe_optimizer(self, applied: Optional[bool], found_inf: float = float("nan"), optimizer: int = 0, scaler: int = 0) -> None:
        """What became of an optimizer's step: applied, skipped (False) or not known (None)."""
        with self._guard():
            outcome = native.UNKNOWN if applied is None else native.APPLIED if applied else native.SKIPPED
            self._begin().observe_optimizer(scaler, optimizer, found_inf, found_inf, outcome)

    def set_loss(self, loss: float) -> None:
        """The unscaled loss of the open attempt. NaN and Inf are legal."""
        with self._guard():
            self._begin().set_loss(float(loss))

    def set_lr(self, lr: float) -> None:
        """The learning rate of the open attempt."""
        with self._guard():
            self._begin().set_lr(float(lr))

    def set_grad_norm(self, norm: float, scaled: bool = False, clipped: bool = False) -> None:
        """The norm of all gradients at the open attempt: whether it was taken under the scale, and whether after clipping."""
        with self._guard():
            self._begin().set_grad_norm(float(norm), scaled, clipped)

    def set_step(self, step: int) -> None:
        """The trainer's own number of the attempt that begins next (or is open and has no number yet). Without it attempts are
        counted."""
        self._step = int(step)

    def set_phase(self, phase: str) -> None:
        """What the trainer is busy with, until said otherwise: train, eval, checkpoint or init."""
        with self._guard():
            self._started().set_phase(native.PHASES[phase])

    def misuse(self, kind: str, detail: str = "", raised: bool = False) -> None:
        """Notes a wrong use of the scaler in the open attempt, else in the next one. kind: e.g. "update_missing", [a-z0-9_]."""
        with self._guard():
            self._started().misuse(kind, detail, raised)

    def end(self) -> None:
        """Ends the open attempt; without one nothing happens. Callbacks of on_finding run here."""
        with self._guard():
            if self._open and self._native is not None:
                self._open = False
                self._native.end_attempt()
        self._deliver()

    # -- questions --------------------------------------------------------------------------------------------------------------

    def findings(self, open_only: bool = False) -> List[Finding]:
        """What the server found in this run, worst first. Waits for the server at most 10 s; ServerError when it is away."""
        return self._questions.findings(open_only)

    def history(self, pattern: str = "*", role: Optional[str] = None, max_points: int = 1000) -> List[Point]:
        """Statistics over attempts of the tensors whose name matches, e.g. history("layers.3.*", role="gradient").
        scalewatch.table() makes a pandas or Arrow table of it."""
        return self._questions.history(pattern, role, max_points)

    def whatif(self, policy: Optional[str] = None, **settings: float) -> Dict[str, Any]:
        """What another scaler, or other parameters, would have done, e.g. whatif(init_scale=2**12, growth_interval=5000)."""
        return self._questions.whatif(policy, settings)

    @staticmethod
    def lint(path: Optional[str] = None) -> List[Any]:
        """What scalewatch.lint says of a script (.py or .ipynb), by its source alone; None = the script that runs. ValueError where
        there is none (a notebook: name its file)."""
        from .lint import check_file
        chosen = path or getattr(sys.modules["__main__"], "__file__", None)
        if chosen is None:
            raise ValueError("no script is running: name the file")
        return list(check_file(chosen))

    @property
    def questions(self) -> Questions:
        """Everything else that the server can be asked about the run."""
        return self._questions

    def on_finding(self, callback: Callable[[Finding], Any]) -> Callable[[Finding], Any]:
        """Calls callback(finding) for each finding that opens or escalates from now on, on the trainer's thread at the end of an
        attempt, so that it may change the learning rate, checkpoint, or raise StopTraining. Usable as a decorator. A thread asks
        the server once a second. Other exceptions of the callback are logged, unless strict."""
        self._callbacks.append(callback)
        if self._poller is None and not self.closed and not self._gone:
            self._poller = threading.Thread(target=self._poll, name="scalewatch", daemon=True)
            self._poller.start()
        return callback

    def stats(self) -> Dict[str, Any]:
        """What the client sent and lost so far: the fields of scalewatch_stats. Empty before the first attempt."""
        return {} if self._native is None else self._native.stats()

    def wait_durable(self, timeout: float = 10.0) -> bool:
        """Waits until all ended attempts are durable on the server; False when the time (seconds) was not enough."""
        if self._native is None:
            return True
        try:
            self._native.wait_durable(int(timeout * 1000))
            return True
        except native.ScalewatchError as error:
            if error.status in (native.TIMEOUT, native.STOPPED, native.FORKED):
                return False
            raise

    # -- the end ----------------------------------------------------------------------------------------------------------------

    def close(self, timeout: float = 5.0, reason: str = "finished") -> bool:
        """Ends the open attempt, sends what is buffered for at most timeout seconds, and undoes what attach did. True when
        everything is durable on the server. Again: does nothing and returns True."""
        if self.closed:
            return True
        self.closed = True
        self._stop_polling.set()
        self._detach()
        made, self._native, self._open = self._native, None, False
        if made is None or self._gone:
            return True
        try:
            made.close(int(timeout * 1000), reason)
            return True
        except native.ScalewatchError as error:
            if error.status not in (native.TIMEOUT, native.STOPPED, native.FORKED):
                self._failed(error)
            return False

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close(reason="finished" if kind is None else kind.__name__)

    def __repr__(self) -> str:
        return f"<scalewatch.{type(self).__name__} run={self.run!r} rank={self.rank} attempt={self.attempt}>"

    def _repr_html_(self) -> str:
        from .notebook import html
        try:
            return html(self._questions)
        except ServerError as error:
            from html import escape
            return f"<p>{escape(repr(self))}: {escape(str(error))}</p>"

    # -- within -----------------------------------------------------------------------------------------------------------------

    def _detach(self) -> None:
        """Undoes what a subclass attached itself to."""

    def _declare(self, made: native.Native) -> None:
        """Declares what a subclass knows, before the first attempt."""

    def _at_exit(self) -> None:
        try:
            self.close(timeout=2.0, reason="exit")
        except Exception:  # noqa: BLE001: nobody is left to be told
            pass

    def _forked(self) -> None:
        self._gone = True
        self._open = False

    def _started(self) -> native.Native:
        if self._native is None:
            if self.closed:
                raise native.ScalewatchError(native.WRONG_STATE, "the watch is closed")
            try:
                self._native = native.Native(run=self.run, rank=self.rank, world_size=self.world_size, framework=self._framework,
                                             compute_dtype=native.DTYPES[self._compute_dtype or "float16"], **self._options)
                self._declare(self._native)
            except Exception as error:
                if not self.strict:  # it would go wrong again at each attempt
                    if getattr(error, "status", None) != native.FORKED:
                        self._failed(error)
                    self._gone = True
                raise
        return self._native

    def _begin(self, step: Optional[int] = None) -> native.Native:
        """The monitor with an attempt open."""
        made = self._started()
        if not self._open or step is not None:
            self.attempt += 1
            number = step if step is not None else self._step if self._step is not None else self.attempt
            made.begin_attempt(number)
            self._open = True
        return made

    def _guard(self) -> "_Guard":
        return _Guard(self)

    def _failed(self, error: BaseException) -> None:
        """An error of this library's own: said once, and never the trainer's."""
        if self._complained or self._gone:
            return
        self._complained = True
        log.warning("scalewatch: run %s is watched no further than this: %s: %s", self.run, type(error).__name__, error,
                    exc_info=log.isEnabledFor(logging.DEBUG))

    def _unobservable(self, what: str) -> None:
        if len(self.not_observable) < 1000 and what not in self.not_observable:
            self.not_observable.append(what)
            log.info("scalewatch: not observable: %s", what)

    def _poll(self) -> None:
        seen: Dict[str, str] = {}
        while not self._stop_polling.wait(_POLL_SECONDS):
            try:
                found = self._questions.findings(open_only=True)
            except ServerError:
                continue
            for one in found:
                if seen.get(one.id) != one.severity and len(self._waiting) < _MAX_WAITING:
                    seen[one.id] = one.severity
                    self._waiting.append(one)

    def _deliver(self) -> None:
        while self._waiting:
            finding = self._waiting.pop(0)
            for callback in list(self._callbacks):
                try:
                    callback(finding)
                except StopTraining:
                    raise
                except Exception as error:  # noqa: BLE001: the trainer must not pay for a monitor's callback
                    if self.strict:
                        raise
                    log.warning("scalewatch: an on_finding callback raised %s: %s", type(error).__name__, error)


class _Guard:
    """Keeps this library's errors from the trainer."""

    __slots__ = ("watch",)

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Optional[BaseException], _: Any) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        watch = self.watch
        if watch._gone or isinstance(error, native.ScalewatchError) and error.status in (native.FORKED, native.STOPPED):
            return True
        if watch.strict:
            return False
        watch._failed(error)
        return True


def environment_rank() -> Tuple[int, int]:
    """(rank, world size) as torchrun and Slurm's launchers say, else (0, 1)."""
    for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        try:
            told = int(os.environ[rank]), int(os.environ[size])
        except (KeyError, ValueError):
            continue
        if 0 <= told[0] < told[1]:
            return told
    return 0, 1
