"""Scripts that change things under the watch, or whose models and optimizers hold what few hold."""
import copy
import gc
import io
import os
import threading
import time
import unittest
import weakref

import torch

import scalewatch
from common import F, Lab, batches, fit, half, harness, network, pace, scaler_of

L = torch.optim.lr_scheduler


class Quantized(torch.Tensor):
    """As those of torchao: a tensor that has no memory of its own, but others that have."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        plain = torch.utils._pytree.tree_map(lambda x: x.inner if isinstance(x, cls) else x, (arguments, keywords or {}))
        result = function(*plain[0], **plain[1])
        return cls(result) if function is torch.ops.aten.detach.default else result


class Changing(Lab):
    def attempts_of(self, watch, role):
        """{tensor: attempts at which it was measured}"""
        told = {}
        for point in watch.history("*", role=role):
            told.setdefault(point.tensor, set()).update(range(point.first_attempt, point.last_attempt + 1))
        return told

    def counted(self, watch):
        told = watch.questions.summary()
        return tuple(int(told[name]) for name in ("attempts", "applied", "skipped"))

    def test_a_scheduler_holds_nothing_of_it(self):
        """Its state_dict() is all that it holds: what was put on it would go into checkpoints."""
        for make in (lambda o: L.StepLR(o, 1), L.ReduceLROnPlateau, L.ChainedScheduler,
                     lambda o: L.SequentialLR(o, [L.ConstantLR(o), L.StepLR(o, 1)], [3])):
            model = network()
            optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
            scheduler = make([L.ConstantLR(optimizer)] if make is L.ChainedScheduler else optimizer)
            before, held = scheduler.state_dict(), dict(vars(scheduler))
            watch = self.attach(model, optimizer, scaler, scheduler=scheduler)
            with self.subTest(type(scheduler).__name__):
                self.assertEqual(vars(scheduler), held)
                self.assertEqual(scheduler.state_dict(), before)
            watch.close(0)

    def test_a_scheduler_that_stands_for_others(self):
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
        scheduler = L.ChainedScheduler([L.LinearLR(optimizer, total_iters=40), L.ConstantLR(optimizer)])
        watch = self.attach(model, optimizer, scaler, scheduler=scheduler)
        for step, (images, classes) in enumerate(batches(40), 1):
            optimizer.zero_grad()
            with half():
                loss = F.cross_entropy(model(images), classes)
            scaler.scale(loss).backward()
            if step in (10, 20, 30):
                model[3].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            pace(watch, step)
        found = self.findings(watch, "Misuse")
        self.assertEqual([f.subject for f in found], ["scheduler_on_skip"])

    def test_a_scheduler_that_counts_nothing(self):
        class Own:
            def step(self):
                pass
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        watch = self.attach(model, optimizer, scaler_of(), scheduler=Own())
        self.assertEqual(watch.not_observable, ["steps of the scheduler Own: it counts none"])

    def test_buffers_and_parameters_that_are_replaced(self):
        """A module may put another tensor where one was: what is there now is measured."""
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(64, 10)
                self.register_buffer("mean", torch.zeros(10))

            def forward(self, images):
                out = self.linear(images)
                self.mean = self.mean * 0.5 + out.detach().float().mean(0)
                return out
        model = Model()
        optimizer, scaler = torch.optim.SGD([model.linear.weight], lr=0.05), scaler_of()
        watch = self.attach(model, optimizer, scaler, every={"parameter": 1})

        def each(step):
            if step == 5:
                model.mean = torch.full((10,), float("nan"))
                model.linear.bias = torch.nn.Parameter(torch.full((10,), 7.0))
        fit(model, optimizer, scaler, 8, watch, each=each)
        found = self.findings(watch, "NonFiniteWeights")
        self.assertEqual([(f.tensor, f.first_step) for f in found], [("mean", 6)])
        self.assertEqual([p.max for p in watch.history("linear.bias", role="parameter")][5:], [7.0] * 3)

    def test_frozen_and_thawed(self):
        model = network()
        for parameter in model[0].parameters():
            parameter.requires_grad_(False)
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
        watch = self.attach(model, optimizer, scaler)

        def each(step):
            if step == 4:
                model[0].requires_grad_(True)
            if step == 8:
                model[3].requires_grad_(False)
        fit(model, optimizer, scaler, 12, watch, each=each)
        self.assert_silent(watch)
        measured = self.attempts_of(watch, "gradient")
        self.assertEqual(measured["0.weight"], set(range(5, 13)))
        self.assertEqual(measured["3.weight"], set(range(1, 9)))
        self.assertEqual(measured["5.weight"], set(range(1, 13)))

    def test_other_parameters_in_the_same_optimizer(self):
        """As many as before, in the place of others: of those that are gone nothing is told, of the new ones everything."""
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), scaler_of()
        watch = self.attach(model, optimizer, scaler, every={"parameter": 1, "optimizer_state": 1})

        def each(step):
            if step == 4:
                model[5] = torch.nn.Linear(64, 10)
                torch.nn.init.constant_(model[5].bias, 9.0)
                optimizer.param_groups[0]["params"][-2:] = list(model[5].parameters())
        fit(model, optimizer, scaler, 8, watch, each=each)
        self.assert_silent(watch)
        at = {(p.tensor, p.role): p for p in watch.questions.attempt(8)}
        gradient = model[5].bias.grad * float(scaler.get_scale())
        self.assertAlmostEqual(at["5.bias", "gradient"].max, float(gradient.max()), delta=1e-3)
        self.assertGreater(at["5.bias", "parameter"].min, 8)
        self.assertIn(("5.bias.momentum_buffer", "optimizer_state"), at)

    def test_a_loss_that_can_not_be_asked(self):
        """A property of the script's own that raises: nobody but the script may ask it."""
        class Output:
            def __init__(self, value):
                self.value = value

            @property
            def loss(self):
                raise RuntimeError("of the script")

        class Model(torch.nn.Linear):
            def forward(self, images):
                return Output(super().forward(images))
        model = Model(64, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        watch = self.attach(model, optimizer)
        model(torch.ones(2, 64)).value.sum().backward()
        optimizer.step()
        self.assert_silent(watch)

    def test_lazy_modules(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.never = torch.nn.LazyLinear(10), torch.nn.LazyLinear(10)

            def forward(self, images):
                return self.used(images)
        model = Model()
        model(torch.ones(2, 64))
        optimizer, scaler = torch.optim.SGD(model.used.parameters(), lr=0.05), scaler_of()
        watch = self.attach(model, optimizer, scaler)
        fit(model, optimizer, scaler, 3, watch)
        self.assert_silent(watch)
        self.assertEqual({p.tensor for p in watch.questions.attempt(1)}, {"used.weight", "used.bias"})

    def test_a_watch_within_what_is_copied(self):
        """An attribute of the model, or of a trainer: copies and pickles of that hold one that has ended."""
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
        model.watch = watch = self.attach(model, optimizer, scaler)
        fit(model, optimizer, scaler, 2, watch)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        for twin in (copy.deepcopy(model).watch, torch.load(file, weights_only=False).watch, copy.copy(watch)):
            self.assertTrue(twin.closed and twin.close())
            self.assertEqual(twin.run, watch.run)
        fit(model, optimizer, scaler, 2, watch)
        self.assertEqual(watch.attempt, 4)
        self.assert_silent(watch)
        self.assertEqual(twin.questions.summary()["attempts"], "4")

    def test_one_name_for_two(self):
        inner, other = torch.nn.Module(), torch.nn.Linear(2, 2)
        inner.b = torch.nn.Linear(64, 4)
        optimizer = torch.optim.SGD([*inner.parameters(), *other.parameters()], lr=0.05)
        watch = self.attach({"a": inner, "a.b": other}, optimizer)
        (inner.b(torch.ones(1, 64)).sum() + other(torch.ones(1, 2)).sum()).backward()
        optimizer.step()
        self.assert_silent(watch)
        sizes = {p.tensor: p.numel for p in watch.questions.attempt(1) if p.role == "gradient"}
        self.assertEqual(sizes, {"a.b.weight": 256, "a.b.bias": 4, "a.b.weight~2": 4, "a.b.bias~2": 2})

    def test_a_scaler_that_is_attached_with_another_model(self):
        models = [network(), network(1)]
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in models]
        scaler = scaler_of()
        self.attach(models[0], optimizers[0], scaler, run="first")
        with self.assertLogs("scalewatch", "WARNING") as said:
            self.attach(models[1], optimizers[1], scaler, run="second")
        self.assertIn("run first ends", said.output[0])

    def test_collected_without_close(self):
        """A function that trains and returns, in a process that goes on: nothing of it stays, and its run has an end."""
        def trial():
            model = network()
            optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
            watch = scalewatch.attach(model, optimizer, scaler, **self.where())
            watch.on_finding(lambda finding: watch.close())
            fit(model, optimizer, scaler, 5)
            return watch.questions
        threads = len(os.listdir("/proc/self/task"))
        questions = trial()
        self.assertGreater(len(os.listdir("/proc/self/task")), threads)
        gc.collect()
        harness.wait_for("the goodbye", lambda: questions.summary()["status"] == "RUN_STATUS_FINISHED")
        self.assertEqual(questions.summary()["attempts"], "5")
        harness.wait_for("its threads", lambda: not any(t.name == "scalewatch" for t in threading.enumerate()))

    def test_a_compiled_step(self):
        """torch.compile takes the hooks out: what was not seen is no skip."""
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of(init_scale=2.0 ** 24)
        watch = self.attach(model, optimizer, scaler)
        optimizer.step = torch.compile(optimizer.step, backend="eager")
        fit(model, optimizer, scaler, 20, watch)
        skipped = int(round(24 - torch.log2(torch.tensor(scaler.get_scale())).item()))
        self.assertGreater(skipped, 0)
        self.assert_silent(watch)
        self.assertEqual(self.counted(watch), (20, 20 - skipped, skipped))

    def test_steps_that_nobody_sees(self):
        """It is said: an empty run looks like a healthy one."""
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        watch = self.attach(model, optimizer, strict=False)
        other = torch.optim.SGD(model.parameters(), lr=0.05)
        for images, classes in batches(25):
            F.cross_entropy(model(images), classes).backward()
            other.step()
        with self.assertLogs("scalewatch", "WARNING") as said:
            watch.close()
        self.assertIn("in 25 forward passes no step of its optimizers was seen", said.output[0])

    def test_optimizers_of_other_makes(self):
        """One that leaves torch's __init__ out, and one that stands around another."""
        class Bare(torch.optim.Optimizer):
            def __init__(self, parameters):
                self.param_groups, self.state, self.defaults = [{"params": list(parameters), "lr": 0.05}], {}, {}

            @torch.no_grad()
            def step(self):
                for p in self.param_groups[0]["params"]:
                    p -= 0.05 * p.grad

            def zero_grad(self):
                for p in self.param_groups[0]["params"]:
                    p.grad = None

        class Around(Bare):
            def __init__(self, optimizer):
                self.optimizer, self.param_groups, self.state, self.defaults = optimizer, optimizer.param_groups, {}, {}

            def step(self):
                self.optimizer.step()

        for make in (Bare, lambda p: Around(torch.optim.SGD(p, lr=0.05))):
            model = network()
            optimizer, scaler = make(model.parameters()), scaler_of(init_scale=2.0 ** 24)
            held = dict(vars(optimizer))
            with self.subTest(type(optimizer).__name__):
                watch = self.attach(model, optimizer, scaler, run=type(optimizer).__name__)
                fit(model, optimizer, scaler, 20, watch)
                self.assert_silent(watch)
                attempts, applied, skipped = self.counted(watch)
                self.assertEqual((attempts, 2.0 ** (24 - skipped)), (20, scaler.get_scale()))
                self.assertEqual(applied, 20 - skipped)
                first = watch.questions.get("/attempts/1")["attempt"]["scalers"][0]
                self.assertEqual((first["skipped"], first["unknown"]), (1, 0))
                self.assertEqual(vars(optimizer).keys(), held.keys())

    def test_tensors_without_memory(self):
        """They are left out and named; everything else is told, at each attempt."""
        model = network()
        model.frozen = torch.nn.Parameter(Quantized(torch.ones(4, 4)), requires_grad=False)
        model.register_buffer("elsewhere", torch.ones(100))
        model.elsewhere.untyped_storage().resize_(0)
        model.register_buffer("mkldnn", torch.ones(3).to_mkldnn())
        layers = torch.nn.Sequential(*model[:6])
        optimizer, scaler = torch.optim.SGD(layers.parameters(), lr=0.05), scaler_of()
        watch = self.attach(model, optimizer, scaler, every={"parameter": 1})
        fit(layers, optimizer, scaler, 4, watch)
        self.assert_silent(watch)
        self.assertEqual(watch.attempt, 4)
        self.assertEqual({text.partition(":")[0] for text in watch.not_observable}, {"frozen", "mkldnn"})
        self.assertEqual({p.tensor for p in watch.questions.attempt(4) if p.role == "parameter"},
                         {name for name, _ in layers.named_parameters()})

    def test_activations_of_another_type(self):
        """Autocast on, then off, and on again: memory is never read as what it is not."""
        for first, then in ((half, lambda: torch.autocast("cpu", enabled=False)), (lambda: torch.autocast("cpu", enabled=False), half)):
            model = network()
            optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
            run = "narrow" if first is half else "wide"
            watch = self.attach(model, optimizer, scaler, activations="5", run=run)
            largest = []
            model[5].register_forward_hook(lambda *a: largest.append(float(a[2].detach().float().abs().max())))
            for step, (images, classes) in enumerate(batches(9), 1):
                optimizer.zero_grad()
                with (then if 4 <= step <= 6 else first)():
                    loss = F.cross_entropy(model(images), classes)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            with self.subTest(run):
                self.assert_silent(watch)
                told = {p.first_attempt: p.absmax for p in watch.history("5", role="activation")}
                if run == "narrow":  # what was declared in fp16 can't hold fp32
                    self.assertIn("5: elements of torch.float32 where there were those of torch.float16", watch.not_observable)
                    self.assertEqual(set(told), {2, 3, 7, 8, 9})
                for attempt, absmax in told.items():
                    self.assertAlmostEqual(absmax, largest[attempt - 1], delta=1e-5)

    def test_gradients_of_another_type_in_the_same_place(self):
        model = torch.nn.Linear(1, 4096, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        watch = self.attach(model, optimizer)
        memory = torch.ones(4096, 1)
        model.weight.grad = memory.detach()
        optimizer.step()
        model.half()
        model.weight.grad = memory.view(-1).view(torch.float16)[:4096, None]
        optimizer.step()
        self.findings(watch)
        self.assertEqual([p.first_attempt for p in watch.history("weight", role="gradient")], [1])
        self.assertIn("weight: a tensor of torch.float16", watch.not_observable[0])

    def test_a_step_within_a_step(self):
        """A class of the script's own calls super().step(), which has hooks too, once there was an optimizer of that class."""
        class Own(torch.optim.SGD):
            def step(self, closure=None):
                return super().step(closure)
        torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        for with_closure in (False, True):
            model = network()
            optimizer = Own(model.parameters(), lr=0.05)
            watch = self.attach(model, optimizer, run=f"closure-{with_closure}")
            for images, classes in batches(5):
                def closure():
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(images), classes)
                    loss.backward()
                    return loss
                optimizer.step(closure) if with_closure else (closure(), optimizer.step())
            with self.subTest(with_closure=with_closure):
                self.assert_silent(watch)
                self.assertEqual(self.counted(watch), (5, 5, 0))
                self.assertEqual(len([p for p in watch.questions.attempt(5) if p.role == "gradient"]), 8)

    def test_a_step_that_fails(self):
        """And a script that goes on (out of memory, say): its gradients are let go, and the next ones are measured."""
        class Fails(torch.optim.SGD):
            def step(self, closure=None):
                if self.failing:
                    raise MemoryError("of the script")
                return super().step(closure)

        for scaled in (True, False):
            model = network()
            optimizer, scaler = Fails(model.parameters(), lr=0.05), scaler_of(enabled=scaled)
            watch = self.attach(model, optimizer, scaler, run=f"scaled-{scaled}")
            images, classes = next(batches(1))
            for step in (1, 2, 3):
                optimizer.failing = step == 2
                optimizer.zero_grad()
                loss = F.cross_entropy(model(images), classes) * step ** 4
                if step == 3:
                    self.assertIsNone(held())
                scaler.scale(loss).backward()
                held = weakref.ref(model[5].weight.grad)
                if optimizer.failing:
                    self.assertRaisesRegex(MemoryError, "of the script", scaler.step, optimizer)
                else:
                    scaler.step(optimizer)
                    scaler.update()
            with self.subTest(scaled=scaled):
                self.findings(watch)
                self.assertEqual(watch.attempt, 2)
                told = next(p for p in watch.questions.attempt(2) if (p.tensor, p.role) == ("5.bias", "gradient"))
                self.assertAlmostEqual(told.absmax, float(model[5].bias.grad.abs().max()), delta=0.01)

    def test_functional_transforms(self):
        """Tensors of torch.func have no memory of their own."""
        model = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
        watch = self.attach(model, optimizer, scaler, activations="*")
        fit(model, optimizer, scaler, 3, watch)
        images, classes = next(batches(1))
        parameters = dict(model.named_parameters())

        def loss(held, image, label):
            return F.cross_entropy(torch.func.functional_call(model, held, (image[None],)), label[None])
        torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, images, classes)
        fit(model, optimizer, scaler, 3, watch)
        self.assert_silent(watch)
        self.assertEqual((watch.attempt, watch.not_observable), (6, []))
        self.assertEqual({p.numel for p in watch.history("0", role="activation")}, {64 * 16})

    def test_several_threads(self):
        """The client library takes one thread at a time: others wait for their turn."""
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        watch = self.attach(model, optimizer, strict=False)
        within, most = [0], [0]

        def seen(method):
            def call(*arguments, **keywords):
                within[0] += 1
                most[0] = max(most[0], within[0])
                time.sleep(0.001)
                result = method(*arguments, **keywords)
                within[0] -= 1
                return result
            return call
        F.cross_entropy(model(torch.ones(4, 64)), torch.zeros(4, dtype=torch.int64)).backward()

        def train(steps):
            for _ in range(steps):
                optimizer.step()
        train(1)
        for name in ("begin_attempt", "observe_many", "end_attempt", "observe_optimizer"):
            setattr(watch._native, name, seen(getattr(watch._native, name)))
        threads = [threading.Thread(target=train, args=(10,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((most[0], watch.attempt), (1, 41))
        self.assertTrue(watch.close(20))


if __name__ == "__main__":
    unittest.main(verbosity=2)
