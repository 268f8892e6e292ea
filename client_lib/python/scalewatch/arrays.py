"""Where an array's elements lie, for anything that says so: NumPy, DLPack, __cuda_array_interface__, __array_interface__."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional, Tuple

from . import native

__all__ = ["View", "view"]

_TYPESTR = {"<f8": "float64", "<f4": "float32", "<f2": "float16", "=f8": "float64", "=f4": "float32", "=f2": "float16"}


class View(NamedTuple):
    """address: of the element at index 0. strides: in elements. device: CUDA's ordinal, None for host memory. keep: holds the data."""

    address: int
    dtype: int  # of native.DTYPES
    sizes: Tuple[int, ...]
    strides: Tuple[int, ...]
    device: Optional[int]
    stream: int
    keep: Any

    @property
    def numel(self) -> int:
        total = 1
        for size in self.sizes:
            total *= size
        return total

    @property
    def contiguous(self) -> bool:
        expected = 1
        for size, stride in zip(reversed(self.sizes), reversed(self.strides)):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _DLDevice), ("ndim", ctypes.c_int32), ("dtype", _DLDataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_DL_HOST, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED = 1, 2, 3, 13
_DL_FLOATS = {(2, 64): "float64", (2, 32): "float32", (2, 16): "float16", (4, 16): "bfloat16", (10, 8): "float8_e4m3fn",
              (12, 8): "float8_e5m2"}


def _row_major(sizes: Tuple[int, ...]) -> Tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _from_interface(told: Any, keep: Any, cuda: bool) -> View:
    typestr = told["typestr"]
    if typestr not in _TYPESTR:
        raise TypeError(f"elements of type {typestr!r} can't be measured: float64, float32 and float16 can")
    name = _TYPESTR[typestr]
    size = int(typestr[2:])
    sizes = tuple(int(n) for n in told["shape"])
    strides = told.get("strides")
    if strides is not None and any(s % size for s in strides):
        raise ValueError("strides that are no multiple of the element's size can't be measured")
    steps = _row_major(sizes) if strides is None else tuple(int(s) // size for s in strides)
    # CUDA arrays name their stream: absent or None = nothing to wait for, 1 = the legacy default, 2 = the thread's default.
    stream = told.get("stream") if cuda else None
    # They don't name their device; DLPack, which most of them have beside it, does.
    device = int(keep.__dlpack_device__()[1]) if cuda and hasattr(keep, "__dlpack_device__") else 0
    return View(int(told["data"][0] or 0), native.DTYPES[name], sizes, steps, device if cuda else None,
                0 if stream in (None, 1) else int(stream), keep)


def _from_dlpack(thing: Any) -> View:
    kind, number = thing.__dlpack_device__()
    cuda = int(kind) in (_DL_CUDA, _DL_CUDA_MANAGED)
    if not cuda and int(kind) not in (_DL_HOST, _DL_CUDA_HOST):
        raise TypeError(f"memory of DLPack device type {int(kind)} can't be measured: host and CUDA memory can")
    try:
        capsule = thing.__dlpack__(stream=-1) if cuda else thing.__dlpack__()
    except BufferError as error:
        raise TypeError(f"{type(thing).__name__} can't be handed over: {error}") from None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    # The capsule is never renamed to "used_dltensor": it stays its producer's, and frees the tensor when it goes.
    made = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    dtype = (made.dtype.code, made.dtype.bits)
    if dtype not in _DL_FLOATS or made.dtype.lanes != 1:
        raise TypeError(f"DLPack elements of code {dtype[0]} and {dtype[1]} bits can't be measured")
    sizes = tuple(made.shape[i] for i in range(made.ndim))
    strides = tuple(made.strides[i] for i in range(made.ndim)) if made.strides else _row_major(sizes)
    return View((made.data or 0) + made.byte_offset, native.DTYPES[_DL_FLOATS[dtype]], sizes, strides,
                int(number) if cuda else None, 0, (capsule, thing))


def view(thing: Any) -> View:
    """Where the elements of an array lie. Nothing is copied. TypeError when it is no array, or none of floating point numbers."""
    if hasattr(thing, "__cuda_array_interface__"):
        return _from_interface(thing.__cuda_array_interface__, thing, cuda=True)
    if hasattr(thing, "__array_interface__") and thing.__array_interface__["typestr"] in _TYPESTR:
        return _from_interface(thing.__array_interface__, thing, cuda=False)
    if hasattr(thing, "__dlpack__"):
        return _from_dlpack(thing)
    raise TypeError(f"{type(thing).__name__} has no __dlpack__, __cuda_array_interface__ or floating point __array_interface__")
