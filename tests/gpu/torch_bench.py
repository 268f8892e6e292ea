"""What PyTorch's own checks take beside the fused pass, and what a training loop takes with and without Scalewatch.

Usage: torch_bench.py LIBRARY    (libscalewatch.so; called through its C ABI)
Prints rows as bench.cc does: name, measured, unit, goal, meaning; tab-separated.
"""
import ctypes
import statistics
import sys

import torch


class Options(ctypes.Structure):  # the fields of scalewatch_options up to compute_dtype
    _fields_ = [("size", ctypes.c_size_t), ("server", ctypes.c_char_p), ("run", ctypes.c_char_p), ("rank", ctypes.c_uint32),
                ("world_size", ctypes.c_uint32), ("compute_dtype", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("role", ctypes.c_int32), ("dtype", ctypes.c_int32),
                ("numel", ctypes.c_uint64), ("forward_index", ctypes.c_uint32), ("shard", ctypes.c_char_p),
                ("replica", ctypes.c_char_p), ("optimizer", ctypes.c_char_p)]


class Device(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_int32), ("stream", ctypes.c_void_p)]


DTYPES = {torch.float32: 2, torch.float16: 3, torch.bfloat16: 4}
GRADIENT = 1


class Watch:
    """Gradients of some tensors, measured at every attempt. No server is there: what is measured is the trainer's cost."""

    def __init__(self, library, tensors):
        self.c = ctypes.CDLL(library)
        self.c.scalewatch_last_error.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), server=b"127.0.0.1:1", run=b"bench", world_size=1)
        self.check(self.c.scalewatch_open(ctypes.byref(options), ctypes.byref(self.handle)))
        self.on = Device(size=ctypes.sizeof(Device), device=torch.cuda.current_device(),
                         stream=torch.cuda.current_stream().cuda_stream)
        self.step = 0
        for i, tensor in enumerate(tensors):
            info = Tensor(size=ctypes.sizeof(Tensor), name=f"t{i}".encode(), role=GRADIENT, dtype=DTYPES[tensor.dtype],
                          numel=tensor.numel(), forward_index=i)
            self.check(self.c.scalewatch_add_tensor(self.handle, ctypes.byref(info), None))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.scalewatch_last_error().decode())

    def attempt(self, tensors):
        self.step += 1
        self.check(self.c.scalewatch_begin_attempt(self.handle, ctypes.c_int64(self.step)))
        for i, tensor in enumerate(tensors):
            self.check(self.c.scalewatch_observe_device(self.handle, i, ctypes.c_void_p(tensor.data_ptr()),
                                                        ctypes.c_uint64(tensor.numel()), ctypes.byref(self.on), None))
        self.check(self.c.scalewatch_end_attempt(self.handle))

    def close(self):
        self.c.scalewatch_close(self.handle, ctypes.c_int64(0), None)


def median_us(work, repetitions=20):
    times = []
    for i in range(-3, repetitions):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if i >= 0:
            times.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times)


def row(name, value, unit, goal="", meaning=""):
    print(f"{name}\t{value:.4g}\t{unit}\t{goal}\t{meaning}")


def checks(library):
    """ResNet-50's sizes as a list of gradients, fp16."""
    sizes = [64 * 3 * 49, 64, 64]
    inside = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for i in range(blocks):
            for size, out in ((inside * width, width), (width * width * 9, width), (width * width * 4, 4 * width)):
                sizes += [size, out, out]
            if i == 0:
                sizes += [inside * width * 4, 4 * width, 4 * width]
            inside = 4 * width
    sizes += [2048 * 1000, 1000]
    tensors = [torch.randn(n, device="cuda").half() for n in sizes]
    watch = Watch(library, tensors)
    ours = median_us(lambda: watch.attempt(tensors))
    watch.close()

    def one_by_one():
        for tensor in tensors:
            tensor.isfinite().all()
            tensor.amin()
            tensor.amax()
            tensor.norm()

    theirs = median_us(one_by_one)
    row("PyTorch isfinite, amin, amax, norm of ResNet-50's gradients", theirs, "us", "", "fp16, one tensor after the other")
    row("Scalewatch, the same gradients", ours, "us", "", "through the C ABI from Python, calls included")
    row("PyTorch's time over Scalewatch's", theirs / ours, "times", ">= 10", "")
    found = torch.zeros(1, device="cuda")
    inverse = torch.ones(1, device="cuda")
    row("_amp_foreach_non_finite_check_and_unscale_",
        median_us(lambda: torch._amp_foreach_non_finite_check_and_unscale_(tensors, found, inverse)), "us", "", "for reference")
    row("_foreach_norm", median_us(lambda: torch._foreach_norm(tensors)), "us", "", "for reference")


def loop(library):
    """A transformer's training steps with autocast, with and without all gradients measured, in turns."""
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = torch.randn(16, 512, 1024, device="cuda")
    watch = Watch(library, list(model.parameters()))

    def step(watched):
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16):
            model(batch).float().square().mean().backward()
        if watched:
            watch.attempt([p.grad for p in model.parameters()])
        optimizer.step()

    for _ in range(5):
        step(False)
        step(True)
    times = {False: [], True: []}
    for _ in range(30):
        for watched in (False, True):
            times[watched].append(median_us(lambda: step(watched), 1))
    watch.close()
    without, with_it = statistics.median(times[False]), statistics.median(times[True])
    row("training step without", without, "us", "", "8 transformer layers of width 1,024, bf16")
    row("training step with", with_it, "us", "", "all gradients at every step")
    row("a training step costs more by", (with_it / without - 1) * 100, "%", "<= 1", "")


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    checks(sys.argv[1])
    loop(sys.argv[1])
