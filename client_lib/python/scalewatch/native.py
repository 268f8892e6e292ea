"""One monitor of the client library, and the numbers that scalewatch.h gives to what has names here."""
from __future__ import annotations

import _thread
import array
import ctypes
import os
import sys
from typing import Any, Dict, Mapping, Optional, Sequence

from . import abi
from .library import library

__all__ = ["ScalewatchError", "Native", "OK", "INVALID_ARGUMENT", "WRONG_STATE", "FORKED", "LIMIT", "TIMEOUT", "STOPPED", "INTERNAL",
           "DTYPES", "DTYPE_NAMES", "FLOAT16", "FLOAT32", "ROLES", "PHASES", "UNKNOWN", "APPLIED", "SKIPPED", "NEVER", "phase_of",
           "role_of", "version"]

OK, INVALID_ARGUMENT, WRONG_STATE, FORKED, LIMIT, TIMEOUT, STOPPED, INTERNAL = range(8)
DTYPES = {"float64": 1, "float32": 2, "float16": 3, "bfloat16": 4, "float8_e4m3fn": 5, "float8_e5m2": 6}
DTYPE_NAMES = {number: name for name, number in DTYPES.items()}
ROLES = {"gradient": 1, "parameter": 2, "activation": 3, "activation_gradient": 4, "optimizer_state": 5, "buffer": 6}
PHASES = {"train": 1, "eval": 2, "checkpoint": 3, "init": 4}
UNKNOWN, APPLIED, SKIPPED = range(3)
NEVER = 0xFFFFFFFF
FLOAT16, FLOAT32 = "float16", "float32"

_NAN = float("nan")
_LEFT_MS = 2000  # for the reports of a monitor that nobody closed


class ScalewatchError(RuntimeError):
    """A call of the client library was refused. `status`: int, the scalewatch_status of scalewatch.h."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def role_of(name: str) -> int:
    """ValueError for a name that is no role."""
    return _number(ROLES, "role", name)


def phase_of(name: str) -> int:
    """ValueError for a name that is no phase."""
    return _number(PHASES, "phase", name)


def _number(of: Dict[str, int], what: str, name: str) -> int:
    if name not in of:
        raise ValueError(f"{what} {name!r}: one of {', '.join(of)}")
    return of[name]


def version() -> str:
    """Version of the client library, e.g. "0.1.0". It is loaded now unless it was: OSError when that fails."""
    return str(library().version().decode())


class Native:
    """One monitor. Methods are the functions of scalewatch.h without their prefix, and raise ScalewatchError where those return a
    status other than OK. One thread at a time, the trainer's, unless scalewatch.h says "any thread"."""

    def __init__(self, *, run: str, server: Optional[str] = None, rank: int = 0, world_size: int = 1, compute_dtype: int = 0,
                 framework: Optional[str] = None, job_id: Optional[str] = None, gpu_uuid: Optional[str] = None,
                 labels: Optional[Mapping[str, str]] = None, buffer_bytes: int = 0, ring_attempts: int = 0,
                 spool_dir: Optional[str] = None, spool_bytes: int = 0, measure_threads: int = 0, histogram_every: int = 100) -> None:
        self._handle: Optional[int] = None
        self._lib = lib = library()
        pairs = [abi.Label(abi.encoded(k), abi.encoded(v)) for k, v in (labels or {}).items()]
        made = (abi.Label * len(pairs))(*pairs)
        options = abi.made(abi.Options, server=abi.encoded(server), run=abi.encoded(run), rank=rank, world_size=world_size,
                           compute_dtype=compute_dtype, framework=abi.encoded(framework), job_id=abi.encoded(job_id),
                           gpu_uuid=abi.encoded(gpu_uuid), labels=made, label_count=len(pairs), buffer_bytes=buffer_bytes,
                           ring_attempts=ring_attempts, spool_dir=abi.encoded(spool_dir), spool_bytes=spool_bytes,
                           measure_threads=measure_threads, histogram_every=histogram_every or NEVER)
        handle = ctypes.c_void_p()
        self._check(lib.open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value
        self._process = os.getpid()

    def __del__(self) -> None:
        # Collected with its model and optimizer: what it has is sent by a thread of its own, for this may be any moment of any thread.
        handle = getattr(self, "_handle", None)
        if handle is not None and os.getpid() == self._process and not sys.is_finalizing():
            self._handle = None
            _thread.start_new_thread(self._lib.close, (handle, _LEFT_MS, b"collected"))

    def _check(self, status: int) -> None:
        if status:
            raise ScalewatchError(status, self._lib.last_error().decode("utf-8", "replace") or f"status {status}")

    def close(self, flush_ms: int = -1, reason: Optional[str] = None) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._check(self._lib.close(handle, flush_ms, abi.encoded(reason)))

    def wait_durable(self, timeout_ms: int) -> None:
        self._check(self._lib.wait_durable(self._handle, timeout_ms))

    def add_scaler(self, name: str, policy: str, parameters: Mapping[str, float]) -> int:
        made = (abi.Parameter * len(parameters))(*[abi.Parameter(abi.encoded(k), float(v)) for k, v in parameters.items()])
        number = ctypes.c_uint32()
        self._check(self._lib.add_scaler(self._handle, abi.encoded(name), abi.encoded(policy), made, len(parameters),
                                         ctypes.byref(number)))
        return number.value

    def add_optimizer(self, name: str, class_name: Optional[str] = None, scaler: int = 0, lr: Optional[float] = None,
                      beta1: Optional[float] = None, beta2: Optional[float] = None, eps: Optional[float] = None,
                      weight_decay: Optional[float] = None, state_dtypes: Sequence[int] = (), fused: bool = False) -> int:
        told = {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
        numbers = {key: float(value) for key, value in told.items() if value is not None}
        present = sum(abi.HAS[key] for key in numbers)
        dtypes = (ctypes.c_int32 * len(state_dtypes))(*state_dtypes)
        made = abi.made(abi.Optimizer, name=abi.encoded(name), class_name=abi.encoded(class_name), scaler=scaler, present=present,
                        state_dtypes=dtypes, state_dtype_count=len(state_dtypes), fused=int(fused), **numbers)
        number = ctypes.c_uint32()
        self._check(self._lib.add_optimizer(self._handle, ctypes.byref(made), ctypes.byref(number)))
        return number.value

    def add_sampling(self, role: int = 0, include: Optional[str] = None, exclude: Optional[str] = None, every: int = 1,
                     report_every: int = 1, only_found_inf: bool = False) -> None:
        made = abi.made(abi.Sampling, role=role, include=abi.encoded(include), exclude=abi.encoded(exclude), every=every,
                        report_every=report_every, only_found_inf=int(only_found_inf))
        self._check(self._lib.add_sampling(self._handle, ctypes.byref(made)))

    def add_tensor(self, name: str, role: int, dtype: int, numel: int, forward_index: int = 0, shard: Optional[str] = None,
                   replica: Optional[str] = None, optimizer: Optional[str] = None) -> int:
        made = abi.made(abi.Tensor, name=abi.encoded(name), role=role, dtype=dtype, numel=numel, forward_index=forward_index,
                     shard=abi.encoded(shard), replica=abi.encoded(replica), optimizer=abi.encoded(optimizer))
        number = ctypes.c_uint32()
        self._check(self._lib.add_tensor(self._handle, ctypes.byref(made), ctypes.byref(number)))
        return number.value

    def begin_attempt(self, step: int) -> None:
        self._check(self._lib.begin_attempt(self._handle, step))

    def end_attempt(self) -> None:
        self._check(self._lib.end_attempt(self._handle))

    def wants(self, tensor: int) -> bool:
        wanted = ctypes.c_int()
        self._check(self._lib.wants(self._handle, tensor, ctypes.byref(wanted)))
        return bool(wanted.value)

    def wants_any(self, tensors: "array.array[int]") -> bool:
        wanted = ctypes.c_int()
        address, count = tensors.buffer_info()
        self._check(self._lib.wants_any(self._handle, count, address, ctypes.byref(wanted)))
        return bool(wanted.value)

    def observe(self, tensor: int, address: int, numel: int, scale: float = 1.0, target: int = 0) -> None:
        call = self._lib.observe if numel >= 4096 else self._lib.observe_quick
        self._check(call(self._handle, tensor, address, numel, scale, target))

    def observe_strided(self, tensor: int, address: int, sizes: Sequence[int], strides: Sequence[int], scale: float = 1.0,
                        target: int = 0) -> None:
        n = len(sizes)
        self._check(self._lib.observe_strided(self._handle, tensor, address, n, (ctypes.c_uint64 * n)(*sizes),
                                              (ctypes.c_int64 * n)(*strides), scale, target))

    def observe_many(self, tensors: "array.array[int]", addresses: "array.array[int]", numels: "array.array[int]",
                     scale: float = 1.0) -> None:
        self._check(self._lib.observe_many(self._handle, len(tensors), tensors.buffer_info()[0], addresses.buffer_info()[0],
                                           numels.buffer_info()[0], scale))

    def observe_device(self, tensor: int, address: int, numel: int, device: int, stream: int, scale_at: Optional[int] = None,
                       scale: float = 1.0, transient: bool = False, sizes: Sequence[int] = (), strides: Sequence[int] = ()) -> None:
        n = len(sizes)
        how = abi.made(abi.DeviceTensor, scale_at=scale_at, scale=scale, transient=int(transient), ndim=n,
                    sizes=(ctypes.c_uint64 * n)(*sizes), strides=(ctypes.c_int64 * n)(*strides))
        on = abi.made(abi.Device, device=device, stream=stream)
        self._check(self._lib.observe_device(self._handle, tensor, address, numel, ctypes.byref(on), ctypes.byref(how)))

    def observe_device_many(self, tensors: "array.array[int]", addresses: "array.array[int]", numels: "array.array[int]",
                            device: int, stream: int, scale_at: Optional[int] = None, scale: float = 1.0) -> None:
        how = abi.made(abi.DeviceTensor, scale_at=scale_at, scale=scale)
        on = abi.made(abi.Device, device=device, stream=stream)
        self._check(self._lib.observe_device_many(self._handle, len(tensors), tensors.buffer_info()[0], addresses.buffer_info()[0],
                                                  numels.buffer_info()[0], ctypes.byref(on), ctypes.byref(how)))

    def measure_device(self) -> int:
        graph = ctypes.c_uint32()
        self._check(self._lib.measure_device(self._handle, ctypes.byref(graph)))
        return graph.value

    def observe_graph(self, graph: int, stream: int) -> None:
        self._check(self._lib.observe_graph(self._handle, graph, stream))

    def observe_scaler(self, scaler: int, before: float, after: float, growth_tracker: int = -1, hysteresis: int = -1) -> None:
        self._check(self._lib.observe_scaler(self._handle, scaler, before, after, growth_tracker, hysteresis))

    def observe_scaler_device(self, scaler: int, device: int, stream: int, before: Optional[int] = None, after: Optional[int] = None,
                              growth_tracker: Optional[int] = None) -> None:
        on = abi.made(abi.Device, device=device, stream=stream)
        state = abi.made(abi.DeviceScaler, scale_before=before, scale_after=after, growth_tracker=growth_tracker)
        self._check(self._lib.observe_scaler_device(self._handle, scaler, ctypes.byref(on), ctypes.byref(state)))

    def observe_optimizer(self, scaler: int, optimizer: int, local: float = _NAN, decided: float = _NAN, outcome: int = UNKNOWN) -> None:
        self._check(self._lib.observe_optimizer(self._handle, scaler, optimizer, local, decided, outcome))

    def observe_optimizer_device(self, scaler: int, optimizer: int, device: int, stream: int, local: Optional[int],
                                 decided: Optional[int], outcome: int = UNKNOWN) -> None:
        on = abi.made(abi.Device, device=device, stream=stream)
        self._check(self._lib.observe_optimizer_device(self._handle, scaler, optimizer, ctypes.byref(on), local, decided, outcome))

    def set_loss(self, loss: float) -> None:
        self._check(self._lib.set_loss(self._handle, loss))

    def set_lr(self, lr: float) -> None:
        self._check(self._lib.set_lr(self._handle, lr))

    def set_grad_norm(self, norm: float, scaled: bool, clipped: bool) -> None:
        self._check(self._lib.set_grad_norm(self._handle, norm, int(scaled), int(clipped)))

    def set_input_non_finite(self, non_finite: bool) -> None:
        self._check(self._lib.set_input_non_finite(self._handle, int(non_finite)))

    def set_phase(self, phase: int) -> None:
        self._check(self._lib.set_phase(self._handle, phase))

    def misuse(self, kind: str, detail: str, raised: bool) -> None:
        self._check(self._lib.misuse(self._handle, abi.encoded(kind), abi.encoded(detail), int(raised)))

    def stats(self) -> "dict[str, Any]":
        made = abi.made(abi.Stats)
        self._check(self._lib.get_stats(self._handle, ctypes.byref(made)))
        told: "dict[str, Any]" = {name: getattr(made, name) for name, *_ in abi.Stats._fields_[1:]}
        told["last_fault"] = made.last_fault.decode("utf-8", "replace")
        return told
