"""What the server holds of a tensor equals what torch says of it, for every dtype, layout and way to hand it over."""
import unittest

import numpy
import torch

import scalewatch
from common import Lab

TARGETS = {"float16": (2.0 ** -14, 2.0 ** -25, 65520.0), "bfloat16": (2.0 ** -126, 2.0 ** -134, 3.3961775292304957e38)}


def awkward(dtype, count=5000, scale=1.0):
    """Values over the whole range of the dtype, NaN, infinities, zeros and subnormals among them."""
    made = torch.Generator().manual_seed(1)
    x = torch.randn(count, generator=made, dtype=torch.float64) * torch.exp2(torch.randint(-30, 18, (count,), generator=made).double())
    x[:40] = 0
    x[40] = -0.0
    x[50:53] = float("nan")
    if dtype is not torch.float8_e4m3fn:  # it has none
        x[60:64], x[70:75] = float("inf"), float("-inf")
    x = x * scale
    return x[torch.randperm(count, generator=made)].to(dtype)


def statistics(tensor, target):
    """The definitions of DESIGN.md in plain torch, in double."""
    smallest, flushed, over = TARGETS[target]
    x = tensor.double().flatten()
    finite = x[x.isfinite()]
    size = finite.abs()
    some = finite.numel() > 0
    nonzero = size[size > 0]
    return {"numel": x.numel(), "nan": int(x.isnan().sum()), "pos_inf": int((x == float("inf")).sum()),
            "neg_inf": int((x == float("-inf")).sum()), "zero": int((x == 0).sum()),
            "min": float(finite.min()) if some else None, "max": float(finite.max()) if some else None,
            "absmax": float(size.max()) if some else None, "absmin_nonzero": float(nonzero.min()) if nonzero.numel() else None,
            "sum": float(finite.sum()), "sum_sq": float(finite.square().sum()), "subnormal": int((nonzero < smallest).sum()),
            "flushed": int((nonzero <= flushed).sum()), "over": int((size >= over).sum())}, float(size.sum())


class Statistics(Lab):
    def check(self, point, tensor, target="float16"):
        expected, total = statistics(tensor, target)
        for name, value in expected.items():
            told = getattr(point, name)
            if name == "sum":
                self.assertLessEqual(abs(told - value), 1e-6 * total, name)
            elif name == "sum_sq":
                self.assertLessEqual(abs(told - value), 1e-6 * value, name)
            elif name in ("min", "max", "absmax", "absmin_nonzero") and value is not None:
                self.assertEqual(numpy.float32(told), numpy.float32(value), name)
            else:
                self.assertEqual(told, value, name)

    def test_every_dtype_and_layout(self):
        dtypes = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
        for target in TARGETS:
            model = torch.nn.Linear(1, 1)
            optimizer = torch.optim.SGD(model.parameters())
            watch = self.attach(model, optimizer, compute_dtype=target, run=f"dtypes-{target}")
            tensors = {}
            for dtype in dtypes:
                name = str(dtype).replace("torch.", "")
                plain = awkward(dtype)
                grid = plain.reshape(50, 100)
                tensors[name] = plain
                tensors[name + ".transposed"] = grid.t()
                tensors[name + ".part"] = grid[3:40:2, 5:90:3]
                tensors[name + ".expanded"] = grid[:1].expand(7, 100)
                tensors[name + ".channels_last"] = plain[:4800].reshape(4, 3, 20, 20).contiguous(memory_format=torch.channels_last)
                tensors[name + ".one"] = plain[100:101].reshape(())
                tensors[name + ".empty"] = plain[:0]
            tensors["all_bad"] = torch.full((9,), float("nan"))
            for name, tensor in tensors.items():
                watch.observe(name, tensor)
            watch.end()
            self.assertTrue(watch.close(20))
            points = {p.tensor: p for p in watch.questions.attempt()}
            for name, tensor in tensors.items():
                with self.subTest(f"{name} against {target}"):
                    if tensor.numel():
                        self.check(points[name], tensor, target)

    def test_complex_and_what_has_no_statistics(self):
        """Complex numbers are their parts. Integers, truth values and formats that DESIGN does not name are said to be left out."""
        model = torch.nn.Linear(1, 1)
        watch = self.attach(model, torch.optim.SGD(model.parameters()), compute_dtype="float16")
        real, imaginary = awkward(torch.float32), awkward(torch.float32, scale=3.0)
        whole = torch.complex(real, imaginary)
        given = {"complex64": whole, "complex128": whole.to(torch.complex128), "conjugate": whole.reshape(50, 100).conj(),
                 "negative": whole.conj().imag, "transposed": whole.reshape(50, 100).t()}
        left_out = {str(dtype).replace("torch.", ""): torch.zeros(4).to(dtype) for dtype in (
            torch.int64, torch.int32, torch.uint8, torch.bool, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)}
        for name, tensor in {**given, **left_out}.items():
            watch.observe(name, tensor)
        watch.end()
        self.assertTrue(watch.close(20))
        points = {p.tensor: p for p in watch.questions.attempt()}
        for name, tensor in given.items():
            with self.subTest(name):
                self.check(points[name], torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor.resolve_neg())
        self.assertEqual(set(points), set(given))
        for name in left_out:
            self.assertIn(f"{name}: elements of torch.{name}", watch.not_observable)

    def test_gradients_under_a_scale(self):
        """Thresholds speak of the unscaled values; the record holds what is stored."""
        model = torch.nn.Linear(50, 100, bias=False)
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.0), torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
        watch = self.attach(model, optimizer, scaler)
        values = awkward(torch.float32).reshape(100, 50)
        scaler.scale(model(torch.ones(1, 50)).sum()).backward()
        model.weight.grad.copy_(values)
        scaler.step(optimizer)
        scaler.update()
        self.assertTrue(watch.close(20))
        point = next(p for p in watch.questions.attempt() if p.role == "gradient")
        self.assertEqual(point.scale, 2.0 ** 12)
        stored, _ = statistics(values, "float16")
        unscaled, _ = statistics(values.double() / 2 ** 12, "float16")
        self.assertEqual((point.absmax, point.zero, point.nan), (stored["absmax"], stored["zero"], stored["nan"]))
        self.assertEqual((point.subnormal, point.flushed, point.over), (unscaled["subnormal"], unscaled["flushed"], unscaled["over"]))

    def test_gradients_that_lie_elsewhere_each_time(self):
        """Moved, strided, absent and back: each attempt's record is of the gradient as it is then."""
        model = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(4, 6)) for _ in range(3)])
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.0), torch.amp.GradScaler("cpu", init_scale=8.0)
        watch = self.attach(model, optimizer, scaler, every={"parameter": 0})
        straight, wide = torch.arange(24.0).reshape(4, 6), torch.arange(96.0).reshape(8, 12)
        rows = [[straight, straight + 1, straight + 2], [straight + 3, None, straight + 4], [straight + 5, straight + 6, straight + 7],
                [straight + 8, wide[::2, ::2], straight + 9], [wide[1::2, 1::2], straight + 10, straight + 11],
                [straight + 12, straight + 13, None], [straight + 14, straight + 15, straight + 16]]
        for gradients in rows:
            scaler.scale(torch.ones(()))
            for parameter, gradient in zip(model, gradients):
                parameter.grad = gradient
            scaler.step(optimizer)
            scaler.update()
        self.assertTrue(watch.wait_durable(20))
        told = {(p.tensor, p.first_attempt): p.sum for p in watch.history("*") if p.role == "gradient"}
        watch.close(20)
        # The step has divided them by the scale since; the record holds what backward left.
        self.assertEqual(told, {(str(i), attempt): float(gradient.sum() * 8) for attempt, gradients in enumerate(rows, 1)
                                for i, gradient in enumerate(gradients) if gradient is not None})

    def test_arrays_by_hand(self):
        """NumPy, and anything with DLPack, in a Watch without PyTorch's part."""
        watch = scalewatch.Watch(**self.where())
        self.addCleanup(watch.close, 0)
        values = awkward(torch.float32)
        grid = values.reshape(50, 100).numpy()

        class OnlyDlpack:
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack__(self, **options):
                return self.tensor.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

        given = {"numpy": grid, "numpy.reversed": grid[::-1, ::2], "numpy.double": grid.astype(numpy.float64),
                 "dlpack": OnlyDlpack(values), "dlpack.bf16": OnlyDlpack(values.bfloat16().reshape(50, 100).t())}
        scaler = watch.add_scaler("mine", "static", scale=8.0)
        watch.add_optimizer("sgd", "SGD", scaler, lr=0.1)
        for step in (6, 7):
            watch.begin(step)
            for name, array in given.items():
                watch.observe(name, array)
            watch.set_loss(2.5)
            watch.observe_scaler(8.0, 8.0)
            watch.observe_optimizer(True, 0.0)
            watch.end()
            self.assertTrue(watch.wait_durable(20))
        self.assertTrue(watch.close(20))
        points = {p.tensor: p for p in watch.questions.attempt()}
        for name, array in given.items():
            tensor = array.tensor if isinstance(array, OnlyDlpack) else torch.from_numpy(numpy.ascontiguousarray(array))
            self.check(points[name], tensor)
        self.assertEqual((watch.questions.summary()["loss"], int(watch.questions.summary()["last_step"])), (2.5, 7))
        for wrong in (3, [1.0], numpy.arange(3), numpy.array(["x"])):
            with self.assertRaises(TypeError):
                scalewatch.Watch(**self.where(run="wrong")).observe("x", wrong)


if __name__ == "__main__":
    unittest.main(verbosity=2)
