"""Real models on real data: what must stay silent, what must be found, and that watching changes nothing."""
import copy
import io
import unittest

import torch

from common import F, Lab, batches, fit, half, network, pace, scaler_of


class Training(Lab):
    def test_healthy(self):
        model = network()
        optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-3), scaler_of()
        watch = self.attach(model, optimizer, scaler, activations="*")
        losses = fit(model, optimizer, scaler, 120, watch)
        self.assertLess(losses[-1], losses[0] / 2)
        self.assert_silent(watch)
        run = watch.questions.summary()
        self.assertEqual((int(run["attempts"]), int(run["applied"]), run["compute_dtype"]), (120, 120, "DTYPE_FP16"))
        self.assertAlmostEqual(run["loss"], losses[-1], places=5)
        self.assertEqual(watch.not_observable, [])
        points = watch.questions.attempt(111)
        names = [p.tensor for p in points if p.role == "gradient"]
        self.assertEqual(sorted(names), sorted(n for n, _ in model.named_parameters()))
        modules = [name.rpartition(".")[0] for name in names]
        self.assertEqual(modules, sorted(modules))  # in forward order
        self.assertEqual({p.role for p in points}, {"gradient", "parameter", "optimizer_state", "buffer", "activation",
                                                    "activation_gradient"})
        gradients = [p for p in points if p.role in ("gradient", "activation_gradient")]
        self.assertEqual({p.scale for p in gradients}, {1024.0})

    def test_a_rate_that_overflows(self):
        """A learning rate far too high: the loss becomes NaN in the forward pass, and the layer where it began is named."""
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=3000.0), scaler_of()
        watch = self.attach(model, optimizer, scaler, activations="*")
        names = [name for name, _ in model.named_children()]
        first = []

        def note(name):
            def hook(_, __, output):
                if not first and not bool(output.isfinite().all()):
                    first.append(name)
            return hook

        for name, module in model.named_children():
            module.register_forward_hook(note(name))
        fit(model, optimizer, scaler, 40, watch)
        found = self.findings(watch, "NonFiniteLoss", "NonFiniteActivation")
        self.assertTrue(first and any(f.severity == "critical" for f in found), found)
        self.assertIn(first[0], names)
        self.assertEqual({f.tensor for f in found if f.severity == "critical"}, {first[0]})

    def test_the_weights_are_the_same_to_the_bit(self):
        def train(watched):
            model = network(seed=3)
            optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=0.02), scaler_of(init_scale=2.0 ** 16, growth_interval=10)
            watch = self.attach(model, optimizer, scaler, activations="*") if watched else None
            fit(model, optimizer, scaler, 60, watch)
            if watch:
                watch.close()
            return [t.clone() for t in model.state_dict().values()], scaler.state_dict(), torch.get_rng_state()

        plain, watched = train(False), train(True)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(plain[0], watched[0])))
        self.assertEqual(plain[1], watched[1])
        self.assertTrue(torch.equal(plain[2], watched[2]))

    def test_accumulation(self):
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of(growth_interval=5)
        watch = self.attach(model, optimizer, scaler, activations="0")
        total = 0.0
        for step, (images, classes) in enumerate(batches(80), 1):
            with half():
                loss = F.cross_entropy(model(images), classes) / 4
            total += loss.item()
            scaler.scale(loss).backward()
            if step % 4 == 0:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                last, total = total, 0.0
                pace(watch, step)
        self.assert_silent(watch)
        run = watch.questions.summary()
        self.assertEqual(int(run["attempts"]), 20)
        self.assertAlmostEqual(run["loss"], last, places=5)
        activation = [p for p in watch.questions.attempt(20) if p.role == "activation"]
        self.assertEqual([p.numel for p in activation], [4 * 64 * 64])  # four micro-batches in one record

    def test_gan(self):
        """Two models, two optimizers, one scaler; the discriminator overflows alone at one attempt: it skips, the generator does
        not."""
        torch.manual_seed(0)
        generator = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 64), torch.nn.Sigmoid())
        judge = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.LeakyReLU(0.2), torch.nn.Linear(32, 1))
        to_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
        to_d = torch.optim.Adam(judge.parameters(), lr=1e-3)
        scaler = scaler_of()
        watch = self.attach({"G": generator, "D": judge}, {"G": to_g, "D": to_d}, scaler)
        for step, (images, _) in enumerate(batches(30), 1):
            with half():
                fake = generator(torch.randn(len(images), 8))
                real_score, fake_score = judge(images), judge(fake.detach())
                loss_d = (F.softplus(-real_score) + F.softplus(fake_score)).mean()
            to_d.zero_grad()
            scaler.scale(loss_d).backward()
            if step == 20:
                judge[0].weight.grad[0, 0] = float("inf")
            scaler.step(to_d)
            with half():
                loss_g = F.softplus(-judge(fake)).mean()
            to_g.zero_grad()
            scaler.scale(loss_g).backward()
            scaler.step(to_g)
            scaler.update()
            pace(watch, step)
        self.assert_silent(watch)
        run = watch.questions.summary()
        self.assertEqual([int(run[k]) for k in ("attempts", "applied", "partial")], [30, 29, 1])
        names = {p.tensor for p in watch.questions.attempt(20) if p.role == "gradient"}
        self.assertIn("G.0.weight", names)
        bad = [p for p in watch.questions.attempt(20) if p.role == "gradient" and p.pos_inf]
        self.assertEqual([(p.tensor, p.pos_inf) for p in bad], [("D.0.weight", 1)])

    def test_gan_with_two_scalers(self):
        torch.manual_seed(0)
        models = {"G": torch.nn.Linear(8, 64), "D": torch.nn.Linear(64, 1)}
        optimizers = [torch.optim.SGD(m.parameters(), lr=1e-2) for m in models.values()]
        scalers = [scaler_of(), scaler_of(init_scale=512.0)]
        watch = self.attach(models, optimizers, scalers)
        for step, (images, _) in enumerate(batches(10), 1):
            for optimizer in optimizers:
                optimizer.zero_grad()
            with half():
                fake = models["G"](torch.randn(len(images), 8))
                loss_d = F.softplus(models["D"](fake.detach())).mean()
                loss_g = F.softplus(-models["D"](fake)).mean()
            scalers[0].scale(loss_g).backward(retain_graph=False)
            optimizers[1].zero_grad()
            scalers[1].scale(loss_d).backward()
            for optimizer, scaler in zip(optimizers, scalers):
                scaler.step(optimizer)
                scaler.update()
            pace(watch, step)
        self.assert_silent(watch)
        run = watch.questions.summary()
        self.assertEqual([int(run[k]) for k in ("attempts", "applied")], [10, 10])
        under = {p.tensor: p.scale for p in watch.questions.attempt() if p.role == "gradient"}
        self.assertEqual((under["G.weight"], under["D.weight"]), (1024.0, 512.0))

    def test_without_a_scaler(self):
        """fp32 and bf16 need none, and nobody is told that one is missing; fp16 under autocast does."""
        for dtype, expected in ((None, "DTYPE_FP32"), (torch.bfloat16, "DTYPE_BF16"), (torch.float16, "DTYPE_FP16")):
            with self.subTest(str(dtype)):
                model = network()
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
                watch = self.attach(model, optimizer, run=f"plain-{dtype}")
                for step, (images, classes) in enumerate(batches(20), 1):
                    optimizer.zero_grad()
                    with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
                        loss = F.cross_entropy(model(images), classes)
                    loss.backward()
                    watch.set_loss(loss)
                    optimizer.step()
                    pace(watch, step)
                found = {f.rule for f in self.findings(watch) if f.severity != "info"}
                self.assertEqual(found, {"MissingScaler"} if dtype is torch.float16 else set())
                run = watch.questions.summary()
                self.assertEqual((run["compute_dtype"], int(run["attempts"]), int(run["applied"])), (expected, 20, 20))
                self.assertAlmostEqual(run["loss"], loss.item(), places=5)

    def test_disabled_scaler(self):
        model = network()
        optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-3), scaler_of(enabled=False)
        watch = self.attach(model, optimizer, scaler)
        for images, classes in batches(5):
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(images), classes)).backward()
            scaler.step(optimizer)
            scaler.update()
        self.assert_silent(watch)
        run = watch.questions.summary()
        self.assertEqual((run["compute_dtype"], int(run["applied"])), ("DTYPE_FP32", 5))

    def test_fused(self):
        """A fused optimizer is called at every attempt; what it skips inside is known by found_inf."""
        model = network()
        optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True), scaler_of()
        watch = self.attach(model, optimizer, scaler)
        for step, (images, classes) in enumerate(batches(30), 1):
            optimizer.zero_grad()
            with half():
                loss = F.cross_entropy(model(images), classes)
            scaler.scale(loss).backward()
            if step == 12:
                model[3].weight.grad[0, 0] = float("nan")
            scaler.step(optimizer)
            scaler.update()
            pace(watch, step)
        self.assert_silent(watch)
        run = watch.questions.summary()
        self.assertEqual([int(run[k]) for k in ("attempts", "applied", "skipped")], [30, 29, 1])

    def test_what_models_hold(self):
        """Shared parameters, sparse gradients, unused parameters, complex ones, groups added later, set_to_none either way."""
        torch.manual_seed(0)

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = torch.nn.Embedding(20, 8, sparse=True)
                self.tied = torch.nn.Linear(8, 20, bias=False)
                self.other = torch.nn.Linear(8, 8)
                self.tied_again = self.tied
                self.unused = torch.nn.Linear(3, 3)
                self.phase = torch.nn.Parameter(torch.randn(8, dtype=torch.complex64))
                self.late = torch.nn.Linear(8, 8)

            def forward(self, tokens):
                hidden = self.other(self.late(self.embedding(tokens).mean(1))) * self.phase.real
                return self.tied(hidden) + self.tied_again(hidden)

        model = Model()
        late = list(model.late.parameters())
        ids = {id(p) for p in late} | {id(model.embedding.weight)}
        dense = torch.optim.Adam([p for p in model.parameters() if id(p) not in ids], lr=1e-3)
        sparse = torch.optim.SparseAdam([model.embedding.weight], lr=1e-3)
        watch = self.attach(model, [dense, sparse])
        for step in range(1, 13):
            tokens = torch.randint(0, 20, (16, 5))
            for optimizer in (dense, sparse):
                optimizer.zero_grad(set_to_none=step % 2 == 0)
            F.cross_entropy(model(tokens), tokens[:, 0]).backward()
            if step == 5:
                dense.add_param_group({"params": late, "lr": 1e-4})
            dense.step()
            sparse.step()
        expected = model.embedding.weight.grad._values()
        self.assert_silent(watch)
        points = {p.tensor: p for p in watch.questions.attempt(24) if p.role == "gradient"}
        self.assertEqual(list(points), ["embedding.weight"])  # each optimizer's step is an attempt of its own
        self.assertEqual(points["embedding.weight"].numel, expected.numel())
        self.assertAlmostEqual(points["embedding.weight"].sum_sq, float(expected.double().square().sum()), delta=1e-6)
        points = {p.tensor: p for p in watch.questions.attempt(23) if p.role == "gradient"}
        self.assertEqual(set(points), {"tied.weight", "other.weight", "other.bias", "phase", "late.weight", "late.bias"})
        self.assertEqual(points["phase"].numel, 16)
        self.assertEqual({p.tensor for p in watch.questions.attempt(7) if p.role == "gradient"}, set(points) - {"late.weight", "late.bias"})

    def test_checkpointing_and_inplace(self):
        """Recomputation in backward is no second micro-batch, and modules that work in place stay as they are."""
        from torch.utils.checkpoint import checkpoint
        for reentrant in (False, True):
            with self.subTest(reentrant=reentrant):
                torch.manual_seed(0)
                block = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(inplace=True), torch.nn.Linear(32, 32))
                head = torch.nn.Linear(32, 10)
                optimizer = torch.optim.SGD([*block.parameters(), *head.parameters()], lr=0.1)
                watch = self.attach([block, head], optimizer, activations="*", run=f"checkpoint-{reentrant}")
                for images, classes in batches(3, size=8):
                    optimizer.zero_grad()
                    hidden = checkpoint(block, images.requires_grad_(), use_reentrant=reentrant)
                    F.cross_entropy(head(hidden), classes).backward()
                    optimizer.step()
                self.assert_silent(watch)
                numel = {p.tensor: p.numel for p in watch.questions.attempt() if p.role == "activation"}
                self.assertEqual(numel, {"0.0": 256, "0.1": 256, "0.2": 256})

    def test_compile(self):
        """Hooks that were there before torch.compile leave nothing in the graph, and the same weights come out."""
        def train(watched, fullgraph=True):
            torch._dynamo.reset()
            model = network(seed=1)
            optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), scaler_of()
            watch = self.attach(model, optimizer, scaler, activations="*") if watched else None
            fit(torch.compile(model, fullgraph=fullgraph, backend="aot_eager"), optimizer, scaler, 12, watch)
            return watch, [p.detach().clone() for p in model.parameters()]

        _, plain = train(False)
        watch, watched = train(True)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(plain, watched)))
        self.assert_silent(watch)
        self.assertEqual(int(watch.questions.summary()["applied"]), 12)
        self.assertEqual(len([p for p in watch.questions.attempt() if p.role == "gradient"]), len(plain))
        self.assertIn("activations", " ".join(watch.not_observable))

    def test_compiled_first(self):
        model = network(seed=1)
        compiled = torch.compile(model, backend="aot_eager")
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), scaler_of()
        watch = self.attach(compiled, optimizer, scaler)
        fit(compiled, optimizer, scaler, 5, watch)
        self.assert_silent(watch)
        self.assertIn("0.weight", {p.tensor for p in watch.questions.attempt()})  # and not _orig_mod.0.weight
        self.assertEqual(watch.questions.summary()["compute_dtype"], "DTYPE_FP16")

    def test_copies_and_checkpoints_know_nothing_of_it(self):
        model = network()
        optimizer, scaler = torch.optim.Adam(model.parameters()), scaler_of()
        before = [set(model.__dict__), set(scaler.__dict__), set(optimizer.__dict__)]
        hooks = len(model._forward_hooks), len(optimizer._optimizer_step_pre_hooks)
        watch = self.attach(model, optimizer, scaler, activations="*")
        fit(model, optimizer, scaler, 3)
        for twin, twin_scaler in ((copy.deepcopy(model), copy.deepcopy(scaler)), self.through_disk(model, scaler)):
            attempts = watch.attempt
            fit(twin, torch.optim.Adam(twin.parameters()), twin_scaler, 2)
            self.assertEqual(watch.attempt, attempts)
            self.assertIsNot(twin_scaler.step.__self__, scaler)
        self.assertEqual(scaler.state_dict()["_growth_tracker"], 3)  # the twins' steps were their own
        watch.close()
        self.assertEqual([set(model.__dict__), set(scaler.__dict__) - {"_scale"}, set(optimizer.__dict__)],
                         [before[0], before[1] - {"_scale"}, before[2]])
        self.assertEqual((len(model._forward_hooks), len(optimizer._optimizer_step_pre_hooks)), hooks)
        self.assertTrue(all(not m._forward_pre_hooks and not m._forward_hooks for m in model.modules()))

    @staticmethod
    def through_disk(model, scaler):
        file = io.BytesIO()
        torch.save((model, scaler), file)
        file.seek(0)
        return torch.load(file, weights_only=False)

if __name__ == "__main__":
    unittest.main(verbosity=2)
