"""The C ABI (client_lib/include/scalewatch/scalewatch.h) through ctypes: structs as they are there, and one thin class.

Calls that take nanoseconds keep the interpreter lock, for giving it away could cost a switch of threads each time; calls that pass over
data or may wait release it.
"""
from __future__ import annotations

import array
import ctypes
import os
import pathlib
from typing import Any, Mapping, Optional, Sequence

__all__ = ["ScalewatchError", "Native", "OK", "INVALID_ARGUMENT", "WRONG_STATE", "FORKED", "LIMIT", "TIMEOUT", "STOPPED", "INTERNAL",
           "DTYPES", "ROLES", "PHASES", "UNKNOWN", "APPLIED", "SKIPPED", "NEVER", "version"]

OK, INVALID_ARGUMENT, WRONG_STATE, FORKED, LIMIT, TIMEOUT, STOPPED, INTERNAL = range(8)
DTYPES = {"float64": 1, "float32": 2, "float16": 3, "bfloat16": 4, "float8_e4m3fn": 5, "float8_e5m2": 6}
ROLES = {"gradient": 1, "parameter": 2, "activation": 3, "activation_gradient": 4, "optimizer_state": 5, "buffer": 6}
PHASES = {"train": 1, "eval": 2, "checkpoint": 3, "init": 4}
UNKNOWN, APPLIED, SKIPPED = range(3)
NEVER = 0xFFFFFFFF

_HAS_LR, _HAS_BETA1, _HAS_BETA2, _HAS_EPS, _HAS_WEIGHT_DECAY = 1, 2, 4, 8, 16
_NAN = float("nan")


class ScalewatchError(RuntimeError):
    """A call of the client library was refused. `status` is scalewatch_status of scalewatch.h."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Label(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("server", ctypes.c_char_p), ("run", ctypes.c_char_p), ("rank", ctypes.c_uint32),
                ("world_size", ctypes.c_uint32), ("compute_dtype", ctypes.c_int32), ("framework", ctypes.c_char_p),
                ("job_id", ctypes.c_char_p), ("gpu_uuid", ctypes.c_char_p), ("labels", ctypes.POINTER(_Label)),
                ("label_count", ctypes.c_size_t), ("buffer_bytes", ctypes.c_uint64), ("ring_attempts", ctypes.c_int32),
                ("spool_dir", ctypes.c_char_p), ("spool_bytes", ctypes.c_uint64), ("spool_max_age_s", ctypes.c_uint64),
                ("spool_keep_free_bytes", ctypes.c_uint64), ("measure_threads", ctypes.c_uint32)]


class _Parameter(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


class _Optimizer(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("class_name", ctypes.c_char_p), ("scaler", ctypes.c_uint32),
                ("present", ctypes.c_uint32), ("lr", ctypes.c_double), ("beta1", ctypes.c_double), ("beta2", ctypes.c_double),
                ("eps", ctypes.c_double), ("weight_decay", ctypes.c_double), ("state_dtypes", ctypes.POINTER(ctypes.c_int32)),
                ("state_dtype_count", ctypes.c_size_t), ("fused", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("role", ctypes.c_int32), ("dtype", ctypes.c_int32),
                ("numel", ctypes.c_uint64), ("forward_index", ctypes.c_uint32), ("shard", ctypes.c_char_p),
                ("replica", ctypes.c_char_p), ("optimizer", ctypes.c_char_p)]


class _Sampling(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("role", ctypes.c_int32), ("include", ctypes.c_char_p), ("exclude", ctypes.c_char_p),
                ("every", ctypes.c_uint32), ("report_every", ctypes.c_uint32), ("start_attempt", ctypes.c_uint64),
                ("end_attempt", ctypes.c_uint64), ("only_found_inf", ctypes.c_int32)]


class _Device(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_int32), ("stream", ctypes.c_void_p)]


class _DeviceTensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("scale_at", ctypes.c_void_p), ("scale", ctypes.c_double), ("target", ctypes.c_int32),
                ("transient", ctypes.c_int32), ("ndim", ctypes.c_uint32), ("sizes", ctypes.POINTER(ctypes.c_uint64)),
                ("strides", ctypes.POINTER(ctypes.c_int64))]


class _DeviceScaler(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("scale_before", ctypes.c_void_p), ("scale_after", ctypes.c_void_p),
                ("growth_tracker", ctypes.c_void_p)]


class _Stats(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_size_t), ("connection", ctypes.c_int32), ("last_fault_cause", ctypes.c_int32)]
                + [(name, ctypes.c_uint64) for name in (
                    "attempts", "durable_attempts", "reports_sent", "reports_thinned", "dropped_buffer_full", "dropped_queue_full",
                    "dropped_too_large", "dropped_rejected", "dropped_internal", "dropped_stopped", "buffered_bytes", "connects",
                    "trainer_thread_ns", "measure_ns")]
                + [("last_fault", ctypes.c_char * 256)]
                + [(name, ctypes.c_uint64) for name in (
                    "dropped_spool_limit", "misuse_dropped", "sampled_out", "spooled_bytes", "client_thread_ns", "cuda_driver_calls",
                    "cuda_poll_calls", "gpu_ns", "device_lost_quiet", "device_lost_busy", "device_lost_late", "device_lost_replays")]
                + [("device_fault", ctypes.c_int32)])


def _bytes(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode("utf-8", "replace")


def _made(struct: Any, **fields: Any) -> Any:
    return struct(size=ctypes.sizeof(struct), **fields)


class _Library:
    """The two shared objects, opened once a process, twice each: with and without the interpreter lock."""

    def __init__(self) -> None:
        folder = pathlib.Path(os.environ.get("SCALEWATCH_LIBRARY_DIR") or pathlib.Path(__file__).parent)
        client, batch = str(folder / "libscalewatch.so.0"), str(folder / "libscalewatch_python.so")
        waiting, quick = ctypes.CDLL(client), ctypes.PyDLL(client)
        waiting_batch, quick_batch = ctypes.CDLL(batch), ctypes.PyDLL(batch)
        p, u32, u64, i32, i64, f64, s, z = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64,
                                           ctypes.c_double, ctypes.c_char_p, ctypes.c_size_t)
        ids = ctypes.POINTER(u32)

        def bind(library: Any, name: str, *types: Any, result: Any = ctypes.c_int) -> Any:
            function = getattr(library, name)
            function.argtypes, function.restype = types, result
            return function

        self.version = bind(quick, "scalewatch_version", result=s)
        self.last_error = bind(quick, "scalewatch_last_error", result=s)
        self.open = bind(waiting, "scalewatch_open", ctypes.POINTER(_Options), ctypes.POINTER(p))
        self.close = bind(waiting, "scalewatch_close", p, i64, s)
        self.wait_durable = bind(waiting, "scalewatch_wait_durable", p, i64)
        self.add_scaler = bind(quick, "scalewatch_add_scaler", p, s, s, ctypes.POINTER(_Parameter), z, ids)
        self.add_optimizer = bind(quick, "scalewatch_add_optimizer", p, ctypes.POINTER(_Optimizer), ids)
        self.add_sampling = bind(quick, "scalewatch_add_sampling", p, ctypes.POINTER(_Sampling))
        self.add_tensor = bind(quick, "scalewatch_add_tensor", p, ctypes.POINTER(_Tensor), ids)
        self.begin_attempt = bind(quick, "scalewatch_begin_attempt", p, i64)
        self.end_attempt = bind(quick, "scalewatch_end_attempt", p)
        self.wants = bind(quick, "scalewatch_wants", p, u32, ctypes.POINTER(ctypes.c_int))
        self.observe = bind(waiting, "scalewatch_observe", p, u32, p, u64, f64, i32)
        self.observe_quick = bind(quick, "scalewatch_observe", p, u32, p, u64, f64, i32)
        self.observe_strided = bind(waiting, "scalewatch_observe_strided", p, u32, p, u32, p, p, f64, i32)
        self.observe_device = bind(quick, "scalewatch_observe_device", p, u32, p, u64, ctypes.POINTER(_Device),
                                   ctypes.POINTER(_DeviceTensor))
        self.measure_device = bind(quick, "scalewatch_measure_device", p, ids)
        self.observe_graph = bind(quick, "scalewatch_observe_graph", p, u32, p)
        self.observe_scaler = bind(quick, "scalewatch_observe_scaler", p, u32, f64, f64, i64, i32)
        self.observe_scaler_device = bind(quick, "scalewatch_observe_scaler_device", p, u32, ctypes.POINTER(_Device),
                                          ctypes.POINTER(_DeviceScaler))
        self.observe_optimizer = bind(quick, "scalewatch_observe_optimizer", p, u32, u32, f64, f64, i32)
        self.observe_optimizer_device = bind(quick, "scalewatch_observe_optimizer_device", p, u32, u32, ctypes.POINTER(_Device), p, p,
                                             i32)
        self.set_loss = bind(quick, "scalewatch_set_loss", p, f64)
        self.set_lr = bind(quick, "scalewatch_set_lr", p, f64)
        self.set_grad_norm = bind(quick, "scalewatch_set_grad_norm", p, f64, ctypes.c_int, ctypes.c_int)
        self.set_input_non_finite = bind(quick, "scalewatch_set_input_non_finite", p, ctypes.c_int)
        self.set_phase = bind(quick, "scalewatch_set_phase", p, i32)
        self.misuse = bind(quick, "scalewatch_misuse", p, s, s, ctypes.c_int)
        self.get_stats = bind(quick, "scalewatch_get_stats", p, ctypes.POINTER(_Stats))
        self.observe_many = bind(waiting_batch, "scalewatch_python_observe", p, z, p, p, p, f64)
        self.observe_device_many = bind(quick_batch, "scalewatch_python_observe_device", p, z, p, p, p, ctypes.POINTER(_Device),
                                        ctypes.POINTER(_DeviceTensor))
        self.wants_any = bind(quick_batch, "scalewatch_python_wants_any", p, z, p, ctypes.POINTER(ctypes.c_int))


_library: Optional[_Library] = None


def _lib() -> _Library:
    global _library
    if _library is None:
        _library = _Library()
    return _library


def version() -> str:
    """Version of the client library that is loaded, e.g. "0.1.0"."""
    return str(_lib().version().decode())


class Native:
    """One monitor. Methods are the functions of scalewatch.h without their prefix, and raise ScalewatchError where those return a
    status other than OK. One thread at a time, the trainer's, unless scalewatch.h says "any thread"."""

    def __init__(self, *, run: str, server: Optional[str] = None, rank: int = 0, world_size: int = 1, compute_dtype: int = 0,
                 framework: Optional[str] = None, job_id: Optional[str] = None, gpu_uuid: Optional[str] = None,
                 labels: Optional[Mapping[str, str]] = None, buffer_bytes: int = 0, ring_attempts: int = 0,
                 spool_dir: Optional[str] = None, spool_bytes: int = 0, measure_threads: int = 0) -> None:
        self._handle: Optional[int] = None
        self._lib = lib = _lib()
        pairs = [_Label(_bytes(k), _bytes(v)) for k, v in (labels or {}).items()]
        made = (_Label * len(pairs))(*pairs)
        options = _made(_Options, server=_bytes(server), run=_bytes(run), rank=rank, world_size=world_size,
                        compute_dtype=compute_dtype, framework=_bytes(framework), job_id=_bytes(job_id), gpu_uuid=_bytes(gpu_uuid),
                        labels=made, label_count=len(pairs), buffer_bytes=buffer_bytes, ring_attempts=ring_attempts,
                        spool_dir=_bytes(spool_dir), spool_bytes=spool_bytes, measure_threads=measure_threads)
        handle = ctypes.c_void_p()
        self._check(lib.open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value

    def _check(self, status: int) -> None:
        if status:
            raise ScalewatchError(status, self._lib.last_error().decode("utf-8", "replace") or f"status {status}")

    def close(self, flush_ms: int = -1, reason: Optional[str] = None) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._check(self._lib.close(handle, flush_ms, _bytes(reason)))

    def wait_durable(self, timeout_ms: int) -> None:
        self._check(self._lib.wait_durable(self._handle, timeout_ms))

    def add_scaler(self, name: str, policy: str, parameters: Mapping[str, float]) -> int:
        made = (_Parameter * len(parameters))(*[_Parameter(_bytes(k), float(v)) for k, v in parameters.items()])
        number = ctypes.c_uint32()
        self._check(self._lib.add_scaler(self._handle, _bytes(name), _bytes(policy), made, len(parameters), ctypes.byref(number)))
        return number.value

    def add_optimizer(self, name: str, class_name: Optional[str] = None, scaler: int = 0, lr: Optional[float] = None,
                      beta1: Optional[float] = None, beta2: Optional[float] = None, eps: Optional[float] = None,
                      weight_decay: Optional[float] = None, state_dtypes: Sequence[int] = (), fused: bool = False) -> int:
        numbers = {"lr": (_HAS_LR, lr), "beta1": (_HAS_BETA1, beta1), "beta2": (_HAS_BETA2, beta2), "eps": (_HAS_EPS, eps),
                   "weight_decay": (_HAS_WEIGHT_DECAY, weight_decay)}
        present = sum(bit for bit, value in numbers.values() if value is not None)
        dtypes = (ctypes.c_int32 * len(state_dtypes))(*state_dtypes)
        made = _made(_Optimizer, name=_bytes(name), class_name=_bytes(class_name), scaler=scaler, present=present,
                     state_dtypes=dtypes, state_dtype_count=len(state_dtypes), fused=int(fused),
                     **{key: float(value) for key, (_, value) in numbers.items() if value is not None})
        number = ctypes.c_uint32()
        self._check(self._lib.add_optimizer(self._handle, ctypes.byref(made), ctypes.byref(number)))
        return number.value

    def add_sampling(self, role: int = 0, include: Optional[str] = None, exclude: Optional[str] = None, every: int = 1,
                     report_every: int = 1, only_found_inf: bool = False) -> None:
        made = _made(_Sampling, role=role, include=_bytes(include), exclude=_bytes(exclude), every=every, report_every=report_every,
                     only_found_inf=int(only_found_inf))
        self._check(self._lib.add_sampling(self._handle, ctypes.byref(made)))

    def add_tensor(self, name: str, role: int, dtype: int, numel: int, forward_index: int = 0, shard: Optional[str] = None,
                   replica: Optional[str] = None, optimizer: Optional[str] = None) -> int:
        made = _made(_Tensor, name=_bytes(name), role=role, dtype=dtype, numel=numel, forward_index=forward_index,
                     shard=_bytes(shard), replica=_bytes(replica), optimizer=_bytes(optimizer))
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
        how = _made(_DeviceTensor, scale_at=scale_at, scale=scale, transient=int(transient), ndim=n,
                    sizes=(ctypes.c_uint64 * n)(*sizes), strides=(ctypes.c_int64 * n)(*strides))
        on = _made(_Device, device=device, stream=stream)
        self._check(self._lib.observe_device(self._handle, tensor, address, numel, ctypes.byref(on), ctypes.byref(how)))

    def observe_device_many(self, tensors: "array.array[int]", addresses: "array.array[int]", numels: "array.array[int]",
                            device: int, stream: int, scale_at: Optional[int] = None, scale: float = 1.0) -> None:
        how = _made(_DeviceTensor, scale_at=scale_at, scale=scale)
        on = _made(_Device, device=device, stream=stream)
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
        on = _made(_Device, device=device, stream=stream)
        state = _made(_DeviceScaler, scale_before=before, scale_after=after, growth_tracker=growth_tracker)
        self._check(self._lib.observe_scaler_device(self._handle, scaler, ctypes.byref(on), ctypes.byref(state)))

    def observe_optimizer(self, scaler: int, optimizer: int, local: float = _NAN, decided: float = _NAN, outcome: int = UNKNOWN) -> None:
        self._check(self._lib.observe_optimizer(self._handle, scaler, optimizer, local, decided, outcome))

    def observe_optimizer_device(self, scaler: int, optimizer: int, device: int, stream: int, local: Optional[int],
                                 decided: Optional[int], outcome: int = UNKNOWN) -> None:
        on = _made(_Device, device=device, stream=stream)
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
        self._check(self._lib.misuse(self._handle, _bytes(kind), _bytes(detail), int(raised)))

    def stats(self) -> "dict[str, Any]":
        made = _made(_Stats)
        self._check(self._lib.get_stats(self._handle, ctypes.byref(made)))
        told: "dict[str, Any]" = {name: getattr(made, name) for name, *_ in _Stats._fields_[1:]}
        told["last_fault"] = made.last_fault.decode("utf-8", "replace")
        return told
