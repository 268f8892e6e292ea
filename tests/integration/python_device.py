"""Runs inside python_test.py's process with the fake driver of tests/fake_cuda: the calls that the Python package makes for tensors,
scaler and found_inf on a GPU, whose kernels run on the CPU there. python_device.py SERVER"""
import array
import ctypes
import struct
import sys

from scalewatch.native import DTYPES, ROLES, Native, UNKNOWN

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
for call in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxPushCurrent_v2(context)):
    assert call == 0, call


def on_gpu(values, form):
    data = struct.pack(f"{len(values)}{form}", *values)
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(len(data))) == 0
    ctypes.memmove(address.value, data, len(data))  # the fake driver's device memory is host memory
    return address.value


watch = Native(run="device", server=sys.argv[1])
scaler = watch.add_scaler("default", "pytorch", {"init_scale": 1024.0})
optimizer = watch.add_optimizer("adam", "AdamW", scaler, fused=True)
tensors = array.array("I", [watch.add_tensor(f"layer.{i}", ROLES["gradient"], DTYPES["float32"], 4, i) for i in range(3)])
strided = watch.add_tensor("strided", ROLES["activation"], DTYPES["float16"], 4, 3)
addresses = array.array("Q", [on_gpu([1.0, -2.0, 0.0, float("inf")], "f"), 0, on_gpu([3.0] * 4, "f")])  # the second has no gradient
numels = array.array("Q", [4] * 3)
half = on_gpu(range(8), "e")
scale, tracker, found = on_gpu([1024.0], "f"), on_gpu([5], "i"), on_gpu([1.0], "f")
for step in range(1, 5):
    watch.begin_attempt(step)
    watch.observe_device(strided, half, 4, 0, 0, transient=True, sizes=(2, 2), strides=(4, 2))
    watch.observe_device_many(tensors, addresses, numels, 0, 0, scale_at=scale)
    watch.measure_device()
    watch.observe_scaler_device(scaler, 0, 0, before=scale)
    watch.observe_optimizer_device(scaler, optimizer, 0, 0, found, found, UNKNOWN)
    watch.measure_device()
    watch.observe_scaler_device(scaler, 0, 0, after=scale, growth_tracker=tracker)
    watch.end_attempt()
watch.wait_durable(20_000)
told = watch.stats()
assert told["device_fault"] == 0 and told["device_lost_quiet"] == 0 and told["cuda_driver_calls"] > 0, told
watch.close(20_000)
