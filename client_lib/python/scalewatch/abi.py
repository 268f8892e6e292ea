"""The C ABI (client_lib/include/scalewatch/scalewatch.h) through ctypes: its constants and its structs, as they are there."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

__all__ = ["Device", "DeviceScaler", "DeviceTensor", "Label", "Optimizer", "Options", "Parameter", "Sampling", "Stats", "Tensor", "HAS",
           "made", "encoded"]

HAS = {"lr": 1, "beta1": 2, "beta2": 4, "eps": 8, "weight_decay": 16}  # bits of Optimizer.present


class Label(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("server", ctypes.c_char_p), ("run", ctypes.c_char_p), ("rank", ctypes.c_uint32),
                ("world_size", ctypes.c_uint32), ("compute_dtype", ctypes.c_int32), ("framework", ctypes.c_char_p),
                ("job_id", ctypes.c_char_p), ("gpu_uuid", ctypes.c_char_p), ("labels", ctypes.POINTER(Label)),
                ("label_count", ctypes.c_size_t), ("buffer_bytes", ctypes.c_uint64), ("ring_attempts", ctypes.c_int32),
                ("spool_dir", ctypes.c_char_p), ("spool_bytes", ctypes.c_uint64), ("spool_max_age_s", ctypes.c_uint64),
                ("spool_keep_free_bytes", ctypes.c_uint64), ("measure_threads", ctypes.c_uint32),
                ("histogram_every", ctypes.c_uint64), ("token_file", ctypes.c_char_p), ("token", ctypes.c_char_p),
                ("ca_file", ctypes.c_char_p), ("cert_file", ctypes.c_char_p), ("key_file", ctypes.c_char_p)]


class Parameter(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


class Optimizer(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("class_name", ctypes.c_char_p), ("scaler", ctypes.c_uint32),
                ("present", ctypes.c_uint32), ("lr", ctypes.c_double), ("beta1", ctypes.c_double), ("beta2", ctypes.c_double),
                ("eps", ctypes.c_double), ("weight_decay", ctypes.c_double), ("state_dtypes", ctypes.POINTER(ctypes.c_int32)),
                ("state_dtype_count", ctypes.c_size_t), ("fused", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("role", ctypes.c_int32), ("dtype", ctypes.c_int32),
                ("numel", ctypes.c_uint64), ("forward_index", ctypes.c_uint32), ("shard", ctypes.c_char_p),
                ("replica", ctypes.c_char_p), ("optimizer", ctypes.c_char_p)]


class Sampling(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("role", ctypes.c_int32), ("include", ctypes.c_char_p), ("exclude", ctypes.c_char_p),
                ("every", ctypes.c_uint32), ("report_every", ctypes.c_uint32), ("start_attempt", ctypes.c_uint64),
                ("end_attempt", ctypes.c_uint64), ("only_found_inf", ctypes.c_int32)]


class Device(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_int32), ("stream", ctypes.c_void_p)]


class DeviceTensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("scale_at", ctypes.c_void_p), ("scale", ctypes.c_double), ("target", ctypes.c_int32),
                ("transient", ctypes.c_int32), ("ndim", ctypes.c_uint32), ("sizes", ctypes.POINTER(ctypes.c_uint64)),
                ("strides", ctypes.POINTER(ctypes.c_int64))]


class DeviceScaler(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("scale_before", ctypes.c_void_p), ("scale_after", ctypes.c_void_p),
                ("growth_tracker", ctypes.c_void_p)]


class Stats(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_size_t), ("connection", ctypes.c_int32), ("last_fault_cause", ctypes.c_int32)]
                + [(name, ctypes.c_uint64) for name in (
                    "attempts", "durable_attempts", "reports_sent", "reports_thinned", "dropped_buffer_full", "dropped_queue_full",
                    "dropped_too_large", "dropped_rejected", "dropped_internal", "dropped_stopped", "buffered_bytes", "connects",
                    "trainer_thread_ns", "measure_ns")]
                + [("last_fault", ctypes.c_char * 256)]
                + [(name, ctypes.c_uint64) for name in (
                    "dropped_spool_limit", "misuse_dropped", "sampled_out", "spooled_bytes", "client_thread_ns", "cuda_driver_calls",
                    "cuda_poll_calls", "gpu_ns", "device_lost_quiet", "device_lost_busy", "device_lost_late", "device_lost_replays")]
                + [("device_fault", ctypes.c_int32), ("histograms_lost", ctypes.c_uint64)])


def encoded(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode("utf-8", "replace")


def made(struct: Any, **fields: Any) -> Any:
    return struct(size=ctypes.sizeof(struct), **fields)
