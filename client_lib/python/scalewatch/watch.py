"""A run that is watched, whatever trains it: attempts and tensors by hand, questions to the server, callbacks, the end."""
from __future__ import annotations

import logging
import os
import threading
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Set, Tuple

from . import lifetime, native
from .answers import Finding, Questions
from .arrays import view
from .asked import Asked
from .callbacks import Callbacks, StopTraining
from .guard import Guard, log

__all__ = ["StopTraining", "Watch"]

_MAX_SAID = 10  # different errors of this library that a run logs
_MAX_HELD = 1000  # calls that wait until it is known what the computation runs in
_MAX_LABELS = 32
_OPTIONS = ("buffer_bytes", "ring_attempts", "spool_dir", "spool_bytes", "measure_threads", "histogram_every", "job_id", "gpu_uuid")


def _ended(*identity: Any) -> "Watch":
    """What a copy or a pickle of a watch is: one that has ended, and can still be asked."""
    made = Watch.__new__(Watch)
    made._set_up(*identity)
    made.closed = True
    return made


class Watch(Asked):
    """One run. Methods that answer questions (findings, history, ...) wait for the server and raise ServerError; add_scaler and
    add_optimizer, called before training, raise ScalewatchError; all others never raise unless strict. Only close and wait_durable
    wait, for at most the time given. Used on one thread, the trainer's; questions from any.

    Attributes, to be read: run, rank, world_size and strict, as given; attempt: int, the number of the attempt that is open or was
    last, from 1, 0 = none yet; closed: bool; not_observable: list of str, what could not be watched, and why."""

    _compute_dtype: Optional[str]
    _framework: str
    _options: Dict[str, Any]

    def __init__(self, run: Optional[str] = None, server: Optional[str] = None, *, http: Optional[str] = None, rank: int = 0, world_size: int = 1,
                 compute_dtype: Optional[str] = None, labels: Optional[Mapping[str, str]] = None, strict: bool = False,
                 framework: str = "python", **options: Any) -> None:
        """run: its name, 1 to 256 bytes; None = $SCALEWATCH_RUN. server: host:port; None = $SCALEWATCH_SERVER, else 127.0.0.1:7462. http: address of its HTTP
        API, for questions; None = $SCALEWATCH_HTTP, else the server's host at port 9464. rank: from 0, of world_size ranks. labels: up
        to 32, they reach every alert. framework: what trains, for display. compute_dtype: "float16", "bfloat16", "float32", ...: what
        the computation runs in; None = float16 once a scaler that scales is added, else that of the first array observed, else
        (add_optimizer, or an attempt without arrays) float32. fp16 without a scaler is a fault that is reported: say what it is
        where the first array is not of that type. strict: errors of this library are raised (ScalewatchError, ValueError, TypeError),
        not logged. options, those of scalewatch.h (0 = its default): buffer_bytes: what is kept until the server has it, in bytes.
        ring_attempts: attempts that a server may ask for afterwards. spool_dir, spool_bytes: a folder for what does not fit, and how
        many bytes it may take. measure_threads: that share a pass over host memory. histogram_every: attempts between histograms of
        exponents, 0 = none. job_id, gpu_uuid: text, for display.

        Raises ValueError for an argument out of range, TypeError for an unknown option. An unknown server is no error: it is looked for when the first attempt
        begins, and training goes on without it."""
        run = run or os.environ.get("SCALEWATCH_RUN")
        if not run or len(run.encode()) > 256 or not run.isprintable():
            raise ValueError("run (or $SCALEWATCH_RUN): a name of 1 to 256 bytes without control characters")
        if not 0 <= rank < max(1, world_size):
            raise ValueError(f"rank {rank} is not within the world of {world_size}")
        if compute_dtype is not None and compute_dtype not in native.DTYPES:
            raise ValueError(f"compute_dtype {compute_dtype!r}: one of {', '.join(native.DTYPES)}")
        unknown = next((name for name in options if name not in _OPTIONS), None)
        if unknown is not None:
            raise TypeError(f"unknown argument {unknown!r}: options are {', '.join(_OPTIONS)}")
        texts = {str(key): str(value) for key, value in (labels or {}).items()}
        if len(texts) > _MAX_LABELS:
            raise ValueError(f"{len(texts)} labels: there can be {_MAX_LABELS}")
        self._set_up(run, server, http, rank, world_size, strict)
        self._compute_dtype, self._framework = compute_dtype, framework
        self._options = {**options, "server": server, "labels": texts}
        lifetime.replace([], self._identity)
        lifetime.register(self)

    def _set_up(self, run: str, server: Optional[str], http: Optional[str], rank: int, world_size: int, strict: bool) -> None:
        self.run, self.rank, self.world_size, self.strict = run, rank, world_size, strict
        self.attempt = 0  # number of the attempt that is open, or was last
        self.not_observable: List[str] = []  # what could not be watched, and why
        self._questions = Questions(run, server, http)
        self._lock = threading.RLock()  # held within Guard
        self._compute_dtype, self._framework, self._options = None, "", {}
        self._native: Optional[native.Native] = None
        self._open = self.closed = self._gone = self._refused = False
        self._said: Set[str] = set()
        self._held: List[Callable[[], None]] = []
        self._step: Optional[int] = None
        self._tensors: Dict[Tuple[str, int], Tuple[int, int]] = {}  # number and type of elements by name and role
        self._callbacks = Callbacks(self._questions)
        self._objects: FrozenSet[int] = getattr(self, "_objects", frozenset())  # ids of what it was attached to,
        self._models_held: FrozenSet[int] = getattr(self, "_models_held", frozenset())  # and of the models among them
        self._identity = (self._questions.server, run, rank)

    def __reduce__(self) -> Any:
        # It may be an attribute of the model, or of a trainer: a copy or checkpoint of that must not stop at threads and sockets.
        return _ended, (self.run, self._questions.server, self._questions.http, self.rank, self.world_size, self.strict)

    # -- attempts and tensors, by hand ------------------------------------------------------------------------------------------

    def add_scaler(self, name: str = "default", policy: str = "pytorch", **parameters: float) -> int:
        """Declares a loss scaler of this name before the first attempt and returns its number. policy: "pytorch", "static", "megatron",
        "deepspeed" or another of the server's, "none": nothing is scaled. parameters: the policy's own, e.g. init_scale=2**16."""
        return self._started(native.FLOAT32 if policy == "none" else native.FLOAT16).add_scaler(name, policy, parameters)

    def add_optimizer(self, name: str = "default", class_name: Optional[str] = None, scaler: int = 0, **numbers: Any) -> int:
        """Declares an optimizer of this name before the first attempt and returns its number. class_name: e.g.
        "AdamW", for display and advice. scaler: the number of its scaler. numbers: lr, beta1, beta2, eps, weight_decay."""
        return self._started().add_optimizer(name, class_name, scaler, **numbers)

    def begin(self, step: Optional[int] = None) -> None:
        """Opens the next attempt. step: the trainer's own number, which may repeat; None = counted from 1."""
        with self._guard():
            self._tell(lambda: self._begin(step))

    def observe(self, name: str, array: Any, role: str = "activation", scale: float = 1.0, forward_index: Optional[int] = None) -> None:
        """Measures an array in the open attempt, now. name: 1 to 512 bytes, unique with the role. array: anything with DLPack,
        __cuda_array_interface__ or __array_interface__ (NumPy, CuPy, JAX, PyTorch), any shape, float64 to float8; nothing is
        copied. role: gradient, parameter, activation, activation_gradient, optimizer_state or buffer. scale: what its values
        were multiplied by. forward_index: position in the order that values flow; None = the order of first observations."""
        with self._guard():
            number = native.role_of(role)
            at = view(array)
            self._started(native.DTYPE_NAMES[at.dtype])
            made = self._begin()
            if (name, number) not in self._tensors:
                index = len(self._tensors) if forward_index is None else forward_index
                self._tensors[name, number] = made.add_tensor(name, number, at.dtype, at.numel, index), at.dtype
            tensor, dtype = self._tensors[name, number]
            if dtype != at.dtype:
                raise TypeError(f"{name}: elements of {native.DTYPE_NAMES[at.dtype]} where there were those of "
                                f"{native.DTYPE_NAMES[dtype]}: give them a name of their own")
            if at.device is not None:
                sizes, strides = ((), ()) if at.contiguous else (at.sizes, at.strides)
                made.observe_device(tensor, at.address, at.numel, at.device, at.stream, scale=scale, transient=True, sizes=sizes,
                                    strides=strides)
            elif at.contiguous:
                made.observe(tensor, at.address, at.numel, scale)
            else:
                made.observe_strided(tensor, at.address, at.sizes, at.strides, scale)

    def observe_scaler(self, before: float, after: float, growth_tracker: int = -1, scaler: int = 0) -> None:
        """What the scaler did at the open attempt: the scale in force before its update, and after it. growth_tracker:
        steps since the scale last changed, -1 = not known. scaler: the number of add_scaler."""
        with self._guard():
            self._tell(lambda: self._begin().observe_scaler(scaler, before, after, growth_tracker))

    def observe_optimizer(self, applied: Optional[bool], found_inf: float = float("nan"), optimizer: int = 0, scaler: int = 0) -> None:
        """What became of an optimizer's step: applied, skipped (False) or not known (None). found_inf: the scaler's count of bad
        gradients or checks, 0 = none, NaN = not known. optimizer, scaler: numbers of add_optimizer and add_scaler."""
        with self._guard():
            outcome = native.UNKNOWN if applied is None else native.APPLIED if applied else native.SKIPPED
            self._tell(lambda: self._begin().observe_optimizer(scaler, optimizer, found_inf, found_inf, outcome))

    def set_loss(self, loss: float) -> None:
        """loss: the unscaled one of the open attempt. NaN and Inf are legal."""
        with self._guard():
            value = float(loss)
            self._tell(lambda: self._begin().set_loss(value))

    def set_lr(self, lr: float) -> None:
        """lr: the learning rate of the open attempt."""
        with self._guard():
            value = float(lr)
            self._tell(lambda: self._begin().set_lr(value))

    def set_grad_norm(self, norm: float, scaled: bool = False, clipped: bool = False) -> None:
        """norm: the 2-norm of all gradients at the open attempt: whether it was taken under the scale (scaled), and whether after clipping
        (clipped)."""
        with self._guard():
            value = float(norm)
            self._tell(lambda: self._begin().set_grad_norm(value, scaled, clipped))

    def set_step(self, step: int) -> None:
        """step: the trainer's own number of the attempt that begins next (or is open and has no number yet); it may repeat and go
        back. Without it attempts are counted."""
        self._step = int(step)

    def set_phase(self, phase: str) -> None:
        """phase: what the trainer is busy with, until said otherwise: "train", "eval", "checkpoint" or "init"."""
        with self._guard():
            number = native.phase_of(phase)
            self._tell(lambda: self._started().set_phase(number))

    def misuse(self, kind: str, detail: str = "", raised: bool = False) -> None:
        """Notes a wrong use of the scaler in the open attempt, else in the next one. kind: e.g. "update_missing", 1 to 64 of
        [a-z0-9_]. detail: at most 512 bytes are kept. raised: the framework refused the call."""
        with self._guard():
            self._tell(lambda: self._started().misuse(kind, detail, raised))

    def end(self) -> None:
        """Ends the open attempt; without one nothing happens. Callbacks of on_finding run here."""
        with self._guard():
            if self._held:
                self._started()
            if self._open and self._native is not None:
                self._open = False
                self._native.end_attempt()
        self._deliver()

    def on_finding(self, callback: Callable[[Finding], Any]) -> Callable[[Finding], Any]:
        """Calls callback(finding) for each finding that opens or escalates from now on, on the trainer's thread at the end of an
        attempt, so that it may change the learning rate, checkpoint, or raise StopTraining. Usable as a decorator. A thread asks
        the server once a second. Other exceptions of the callback are logged, unless strict."""
        self._callbacks.add(callback, ask=not self.closed and not self._gone)
        return callback

    def stats(self) -> Dict[str, Any]:
        """What the client sent and lost so far, by the names of scalewatch_stats: attempts, reports_sent, dropped_..., buffered_bytes
        (bytes), trainer_thread_ns (nanoseconds), ... Empty before the first attempt and after close."""
        return {} if self._native is None else self._native.stats()

    def wait_durable(self, timeout: float = 10.0) -> bool:
        """Waits until all ended attempts are durable on the server, at most timeout seconds; False when that was not enough."""
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
        """Ends the open attempt, sends what is buffered for at most timeout seconds, and undoes what attach did. reason: what the
        goodbye tells, for display. True when everything is durable on the server; False too when the run could not be watched. Again:
        does nothing and returns True."""
        if self.closed:
            return True
        try:
            if self._held and not self._gone:
                with self._guard():
                    self._started()
        finally:
            self.closed = True
            self._callbacks.stop()
            self._detach()
        with self._lock:
            made, self._native, self._open = self._native, None, False
        if made is None or self._gone:
            return not self._refused
        try:
            made.close(int(timeout * 1000), reason)
            return True
        except native.ScalewatchError as error:
            if error.status not in (native.TIMEOUT, native.STOPPED, native.FORKED):
                self._say(f"close: {error}")
            return False

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close(reason="finished" if kind is None else kind.__name__)

    def __repr__(self) -> str:
        return f"<scalewatch.{type(self).__name__} run={self.run!r} rank={self.rank} attempt={self.attempt}>"

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
        self._lock = threading.RLock()  # another thread of the parent may have held it
        self._gone = True
        self._open = False

    def _started(self, seen: Optional[str] = None) -> native.Native:
        """The monitor. seen: what the computation seems to run in, where nobody said so."""
        if self._native is None:
            if self._gone:
                raise native.ScalewatchError(native.STOPPED, "the run is not watched in this process")
            if self.closed:
                raise native.ScalewatchError(native.WRONG_STATE, "the watch is closed")
            self._compute_dtype = self._compute_dtype or seen or native.FLOAT32
            try:
                self._native = native.Native(run=self.run, rank=self.rank, world_size=self.world_size, framework=self._framework,
                                             compute_dtype=native.DTYPES[self._compute_dtype], **self._options)
                self._declare(self._native)
            except Exception as error:
                if not self.strict or getattr(error, "status", None) == native.FORKED:  # it would go wrong again at each attempt
                    self._say(f"it is not watched: {type(error).__name__}: {error}")
                    self._gone = self._refused = True
                raise
            held, self._held = self._held, []
            for call in held:
                call()
        return self._native

    def _tell(self, call: Callable[[], Any]) -> None:
        """Does it now; before it is known what the computation runs in, which the client must be told first, once it is."""
        if self._native is not None or self._compute_dtype is not None or self.closed or self._gone:
            call()
        elif len(self._held) < _MAX_HELD:
            self._held.append(call)

    def _begin(self, step: Optional[int] = None) -> native.Native:
        """The monitor with an attempt open."""
        made = self._started()
        if not self._open or step is not None:
            self.attempt += 1
            made.begin_attempt(step if step is not None else self._step if self._step is not None else self.attempt)
            self._open = True
        return made

    def _guard(self) -> Guard:
        return Guard(self)

    def _failed(self, error: BaseException) -> None:
        """An error of this library's own, or of what one of its methods was given."""
        if not self._gone:
            self._say(f"attempt {self.attempt} is told without what failed here: {type(error).__name__}: {error}", error)

    def _say(self, what: str, error: Optional[BaseException] = None) -> None:
        """Each error once, and never many."""
        key = what if error is None else f"{type(error).__name__}: {error}"
        if key in self._said or len(self._said) >= _MAX_SAID:
            return
        self._said.add(key)
        last = " (other errors of this run are not logged)" if len(self._said) == _MAX_SAID else ""
        log.warning("scalewatch: run %s: %s%s", self.run, what, last, exc_info=error if log.isEnabledFor(logging.DEBUG) else None)

    def _unobservable(self, what: str) -> None:
        if len(self.not_observable) < 1000 and what not in self.not_observable:
            self.not_observable.append(what)
            log.info("scalewatch: not observable: %s", what)

    def _deliver(self) -> None:
        self._callbacks.deliver(self.strict)
