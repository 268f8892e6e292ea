"""Gradients that are not in p.grad when the optimizer steps: Megatron's main_grad, what ZeRO keeps of them; and compiled backward."""
import unittest

import torch

from common import F, Lab, batches, fit, pace, scaler_of
from scalewatch.pytorch.models import Models


class MainGradients(torch.optim.SGD):
    """Steps on the fp32 sums in p.main_grad of bf16 parameters, as Megatron's and Apex's optimizers do."""

    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.add_(parameter.main_grad, alpha=-group["lr"])


def accumulate_in_fp32(model):
    """What Megatron's wrapper does: each gradient is added to main_grad as it comes, and p.grad is dropped."""
    for parameter in model.parameters():
        parameter.main_grad = torch.zeros_like(parameter, dtype=torch.float32)

        def add(p):
            p.main_grad += p.grad
            p.grad = None
        parameter.register_post_accumulate_grad_hook(add)


class Elsewhere(Lab):
    def bf16_loop(self, watch, model, optimizer, steps, micro_batches=2):
        for step, (images, classes) in enumerate(batches(steps * micro_batches, size=16), 1):
            loss = F.cross_entropy(model(images.bfloat16()).float(), classes) / micro_batches
            loss.backward()
            watch.add_loss(loss)
            if step % micro_batches == 0:
                optimizer.step()
                yield step // micro_batches
                for parameter in model.parameters():
                    parameter.main_grad.zero_()
                pace(watch, step)

    def small(self):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)).bfloat16()

    def check(self, points, expected):
        """expected: name -> (number of elements, sum of squares)."""
        gradients = {p.tensor: p for p in points if p.role == "gradient"}
        self.assertEqual({n: p.numel for n, p in gradients.items()}, {n: numel for n, (numel, _) in expected.items()})
        for name, (_, sum_sq) in expected.items():
            self.assertAlmostEqual(gradients[name].sum_sq, sum_sq, delta=1e-6 * sum_sq, msg=name)

    def test_main_grad(self):
        """Found by itself, whether it was there before attach() or came with the first backward."""
        for late in (False, True):
            with self.subTest(late=late):
                model = self.small()
                if not late:
                    accumulate_in_fp32(model)
                optimizer = MainGradients(model.parameters(), lr=0.05)
                watch = self.attach(model, optimizer, run=f"main-grad-{late}")
                if late:
                    accumulate_in_fp32(model)
                for _ in self.bf16_loop(watch, model, optimizer, 6):
                    held = {n: (p.numel(), float(p.main_grad.double().square().sum())) for n, p in model.named_parameters()}
                self.assert_silent(watch)
                self.check(watch.questions.attempt(), held)
                told = {one["info"]["name"]: one["info"]["dtype"] for one in watch.questions.tensors(role="gradient")}
                self.assertEqual(set(told.values()), {"DTYPE_FP32"})
                self.assertEqual(watch.questions.summary()["compute_dtype"], "DTYPE_BF16")

    def test_an_overflow_in_main_grad(self):
        model = self.small()
        accumulate_in_fp32(model)
        optimizer = MainGradients(model.parameters(), lr=1e-3)
        watch = self.attach(model, optimizer)
        poison = model[2].weight.register_hook(lambda g: g * (float("inf") if watch.attempt == 4 else 1))
        for _ in self.bf16_loop(watch, model, optimizer, 6):
            pass
        poison.remove()
        found = [f for f in self.findings(watch) if f.severity == "critical"]
        self.assertIn(("2.weight", 5), [(f.tensor, f.first_attempt) for f in found], found)

    def test_a_part_of_each_gradient(self):
        """As ZeRO keeps them: this rank's part of the flattened gradients, in buffers of its own; some tensors are all on others."""
        model = self.small()
        parameters = list(model.parameters())
        parts = {}

        class Partitioned(torch.optim.SGD):
            def step(self, closure=None):
                return super().step(closure)

        def mine(parameter):
            return parts.get(id(parameter))

        optimizer = Partitioned(parameters, lr=0.01)
        watch = self.attach(model, optimizer, grad_of=mine)
        for step, (images, classes) in enumerate(batches(8, size=16), 1):
            F.cross_entropy(model(images.bfloat16()).float(), classes).backward()
            for parameter in parameters[:3]:
                parts[id(parameter)] = parameter.grad.float().flatten()[: parameter.numel() // 2]
            optimizer.step()
            held = {n: (len(parts[id(p)]), float(parts[id(p)].double().square().sum())) for n, p in model.named_parameters()
                    if id(p) in parts}
            optimizer.zero_grad()
            pace(watch, step)
        self.assert_silent(watch)
        self.check(watch.questions.attempt(), held)
        told = {one["info"]["name"]: one["info"]["shard"] for one in watch.questions.tensors(role="gradient")}
        self.assertEqual(told, dict.fromkeys(held, "0"))
        self.assertRaises(TypeError, self.attach, model, optimizer, grad_of=3)

    def test_names_of_wrapped_models(self):
        """What stands around a model takes no part in its names: PyTorch's, Megatron's and DeepSpeed's wrappers, compiled or not."""
        class Float16Module(torch.nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module = module

        class DistributedDataParallel(Float16Module):
            pass

        model = self.small()
        names = [n for n, _ in model.named_parameters()]
        for wrapped in (model, torch.nn.DataParallel(model), Float16Module(model), DistributedDataParallel(Float16Module(model)),
                        torch.compile(DistributedDataParallel(model), backend="aot_eager")):
            self.assertEqual([n for n, _ in Models(wrapped).parameters()], names)
            self.assertEqual([n for n, _ in Models({"G": wrapped}).parameters()], [f"G.{n}" for n in names])
        self.assertEqual([n for n, _ in Models(torch.nn.ModuleDict({"module": model})).parameters()], [f"module.{n}" for n in names])

    def test_flat_copies(self):
        """As DeepSpeed's ZeRO: an optimizer over flat fp32 copies, a group at a time, within another's step, which lets the gradients of
        the model's parameters go before it steps, and steps nothing when they overflow."""
        model = self.small()
        kept = {}
        groups = [list(model[0].parameters()), list(model[2].parameters())]

        class Zero:
            def __init__(self):
                self.flat = [torch.nn.Parameter(torch.cat([p.detach().float().flatten() for p in group])) for group in groups]
                self.optimizer = torch.optim.Adam([{"params": [one]} for one in self.flat], lr=1e-3)
                self.param_groups = self.optimizer.param_groups

            def step(self):
                gradients = [torch.cat([kept.pop(id(p)).flatten() for p in group]) for group in groups]
                if not all(bool(g.isfinite().all()) for g in gradients):
                    return
                for number, gradient in enumerate(gradients):
                    self.flat[number].grad = gradient
                    self.optimizer.param_groups, whole = [self.optimizer.param_groups[number]], self.optimizer.param_groups
                    self.optimizer.step()
                    self.optimizer.param_groups = whole
                    self.flat[number].grad = None
                    at = 0
                    for p in groups[number]:
                        p.data.copy_(self.flat[number].data[at:at + p.numel()].view_as(p))
                        at += p.numel()

        zero = Zero()
        watch = self.attach(model, zero, grad_of=lambda p: kept.get(id(p)))
        for step, (images, classes) in enumerate(batches(8, size=16), 1):
            loss = F.cross_entropy(model(images.bfloat16()).float(), classes)
            loss.backward()
            for parameter in model.parameters():
                kept[id(parameter)] = parameter.grad.float()
                parameter.grad = None
            if step == 5:
                kept[id(model[2].weight)][0, 0] = float("inf")
            held = {n: (p.numel(), float(kept[id(p)].double().square().sum())) for n, p in model.named_parameters()}
            zero.step()
            pace(watch, step)
        self.assertEqual(watch.attempt, 8)
        self.assertTrue(watch.close(20))
        self.check(watch.questions.attempt(), held)
        run = watch.questions.summary()
        self.assertEqual([int(run[key]) for key in ("attempts", "applied", "skipped")], [8, 7, 1])
        self.assertEqual({p.tensor: p.pos_inf for p in watch.questions.attempt(5) if p.role == "gradient" and p.pos_inf}, {"2.weight": 1})
        self.assertEqual([f.subject for f in watch.findings() if f.rule == "Misuse"], [])
        self.assertNotIn("step", vars(zero))  # and nothing is left of it

    def test_inductor(self):
        """Code that torch.compile makes with its own compiler: the same weights, and every gradient."""
        def train(watched):
            torch._dynamo.reset()
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.GELU(), torch.nn.Linear(16, 10))
            optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), scaler_of()
            watch = self.attach(model, optimizer, scaler) if watched else None
            fit(torch.compile(model, fullgraph=True), optimizer, scaler, 8, watch)
            return watch, model

        _, plain = train(False)
        watch, watched = train(True)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters())))
        self.assert_silent(watch)
        self.assertEqual(int(watch.questions.summary()["applied"]), 8)
        self.assertEqual({p.tensor for p in watch.questions.attempt() if p.role == "gradient"}, {n for n, _ in plain.named_parameters()})


if __name__ == "__main__":
    unittest.main(verbosity=2)
