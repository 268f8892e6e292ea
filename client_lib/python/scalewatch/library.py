"""The functions of the C ABI, opened with ctypes.

Calls that take nanoseconds keep the interpreter lock, for giving it away could cost a switch of threads each time; calls that pass over
data or may wait release it.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
from typing import Any, Optional

from . import abi

__all__ = ["Library", "library"]


class Library:
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
        self.open = bind(waiting, "scalewatch_open", ctypes.POINTER(abi.Options), ctypes.POINTER(p))
        self.close = bind(waiting, "scalewatch_close", p, i64, s)
        self.wait_durable = bind(waiting, "scalewatch_wait_durable", p, i64)
        self.add_scaler = bind(quick, "scalewatch_add_scaler", p, s, s, ctypes.POINTER(abi.Parameter), z, ids)
        self.add_optimizer = bind(quick, "scalewatch_add_optimizer", p, ctypes.POINTER(abi.Optimizer), ids)
        self.add_sampling = bind(quick, "scalewatch_add_sampling", p, ctypes.POINTER(abi.Sampling))
        self.add_tensor = bind(quick, "scalewatch_add_tensor", p, ctypes.POINTER(abi.Tensor), ids)
        self.begin_attempt = bind(quick, "scalewatch_begin_attempt", p, i64)
        self.end_attempt = bind(quick, "scalewatch_end_attempt", p)
        self.wants = bind(quick, "scalewatch_wants", p, u32, ctypes.POINTER(ctypes.c_int))
        self.observe = bind(waiting, "scalewatch_observe", p, u32, p, u64, f64, i32)
        self.observe_quick = bind(quick, "scalewatch_observe", p, u32, p, u64, f64, i32)
        self.observe_strided = bind(waiting, "scalewatch_observe_strided", p, u32, p, u32, p, p, f64, i32)
        self.observe_device = bind(quick, "scalewatch_observe_device", p, u32, p, u64, ctypes.POINTER(abi.Device),
                                   ctypes.POINTER(abi.DeviceTensor))
        self.measure_device = bind(quick, "scalewatch_measure_device", p, ids)
        self.observe_graph = bind(quick, "scalewatch_observe_graph", p, u32, p)
        self.observe_scaler = bind(quick, "scalewatch_observe_scaler", p, u32, f64, f64, i64, i32)
        self.observe_scaler_device = bind(quick, "scalewatch_observe_scaler_device", p, u32, ctypes.POINTER(abi.Device),
                                          ctypes.POINTER(abi.DeviceScaler))
        self.observe_optimizer = bind(quick, "scalewatch_observe_optimizer", p, u32, u32, f64, f64, i32)
        self.observe_optimizer_device = bind(quick, "scalewatch_observe_optimizer_device", p, u32, u32, ctypes.POINTER(abi.Device), p, p,
                                             i32)
        self.set_loss = bind(quick, "scalewatch_set_loss", p, f64)
        self.set_lr = bind(quick, "scalewatch_set_lr", p, f64)
        self.set_grad_norm = bind(quick, "scalewatch_set_grad_norm", p, f64, ctypes.c_int, ctypes.c_int)
        self.set_input_non_finite = bind(quick, "scalewatch_set_input_non_finite", p, ctypes.c_int)
        self.set_phase = bind(quick, "scalewatch_set_phase", p, i32)
        self.misuse = bind(quick, "scalewatch_misuse", p, s, s, ctypes.c_int)
        self.get_stats = bind(quick, "scalewatch_get_stats", p, ctypes.POINTER(abi.Stats))
        self.observe_many = bind(waiting_batch, "scalewatch_python_observe", p, z, p, p, p, f64)
        self.observe_device_many = bind(quick_batch, "scalewatch_python_observe_device", p, z, p, p, p, ctypes.POINTER(abi.Device),
                                        ctypes.POINTER(abi.DeviceTensor))
        self.wants_any = bind(quick_batch, "scalewatch_python_wants_any", p, z, p, ctypes.POINTER(ctypes.c_int))


_library: Optional[Library] = None


def library() -> Library:
    """The library, opened at the first call."""
    global _library
    if _library is None:
        _library = Library()
    return _library
