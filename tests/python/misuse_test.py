"""Every wrong use of the scaler that rules.md lists, made for real: PyTorch's own refusals pass unchanged, and each is told."""
import unittest

import torch

from common import F, Lab, batches, fit, half, network, pace, scaler_of


class Misuse(Lab):
    def loop(self, **options):
        self.model = network()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options.pop("lr", 0.05))
        self.scaler = scaler_of(**options.pop("scaler", {}))
        self.watch = self.attach(self.model, self.optimizer, self.scaler, **options)
        return self.model, self.optimizer, self.scaler, self.watch

    def backward(self, images, classes):
        with half():
            loss = F.cross_entropy(self.model(images), classes)
        self.scaler.scale(loss).backward()

    def told(self, kind, words=".", step=None, severity="warning", only=True):
        found = self.findings(self.watch, "Misuse")
        mine = [f for f in found if f.subject == kind]
        self.assertTrue(mine, [(f.subject, f.summary) for f in found])
        self.assertRegex(mine[0].summary, words)
        self.assertEqual(mine[0].severity, severity)
        self.assertTrue(mine[0].advice)
        if step is not None:
            self.assertEqual(mine[0].first_attempt, step)
        if only:
            self.assertEqual({f.subject for f in found}, {kind})
        return mine[0]

    def refuses(self, error, words, call, *arguments):
        """The very exception that PyTorch raises without a watch."""
        with self.assertRaisesRegex(error, words) as caught:
            call(*arguments)
        self.assertIs(type(caught.exception), error)

    def test_clip_before_unscale(self):
        model, optimizer, scaler, watch = self.loop(lr=0.3)
        for step, (images, classes) in enumerate(batches(30), 1):
            optimizer.zero_grad()
            self.backward(images, classes)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            pace(watch, step)
        self.told("clip_before_unscale", "5")

    def test_unscale_twice(self):
        _, optimizer, scaler, _ = self.loop()
        fit(self.model, optimizer, scaler, 3)
        for batch in batches(2):
            self.backward(*batch)
            if optimizer.param_groups and scaler._per_optimizer_states[id(optimizer)]["stage"].value == 0:
                scaler.unscale_(optimizer)
            else:
                self.refuses(RuntimeError, "has already been called on this optimizer", scaler.unscale_, optimizer)
        self.told("unscale_twice", "framework refused", step=4, severity="critical")

    def test_unscale_after_step(self):
        _, optimizer, scaler, _ = self.loop()
        for batch in batches(1):
            self.backward(*batch)
        scaler.step(optimizer)
        self.refuses(RuntimeError, "being called after step", scaler.unscale_, optimizer)
        self.told("unscale_after_step", step=1, severity="critical")

    def test_step_twice(self):
        _, optimizer, scaler, _ = self.loop()
        for batch in batches(1):
            self.backward(*batch)
        scaler.step(optimizer)
        self.refuses(RuntimeError, "has already been called since the last update", scaler.step, optimizer)
        self.told("step_twice", step=1, severity="critical")

    def test_step_without_scale_from_the_start(self):
        model, optimizer, scaler, _ = self.loop()
        for images, classes in batches(1):
            F.cross_entropy(model(images), classes).backward()
        self.refuses(AssertionError, "Attempted step but _scale is None", scaler.step, optimizer)
        self.told("step_without_scale", step=1, severity="critical")

    def test_step_without_scale_later(self):
        """PyTorch does not see this one: the gradients are divided by a scale that they do not hold."""
        model, optimizer, scaler, watch = self.loop()
        fit(model, optimizer, scaler, 3)
        for images, classes in batches(1):
            F.cross_entropy(model(images), classes).backward()
        scaler.step(optimizer)
        scaler.update()
        self.told("step_without_scale", step=4)

    def test_step_itself(self):
        model, optimizer, scaler, _ = self.loop()
        for batch in batches(1):
            self.backward(*batch)
        optimizer.step()
        self.told("out_of_order", r"scaler\.step\(optimizer\)")

    def test_update_missing(self):
        _, optimizer, scaler, _ = self.loop()
        fit(self.model, optimizer, scaler, 2)
        for number, batch in enumerate(batches(2)):
            optimizer.zero_grad()
            self.backward(*batch)
            if number == 0:
                scaler.step(optimizer)
        self.refuses(RuntimeError, "has already been called since the last update", scaler.step, optimizer)
        self.told("update_missing", step=3, severity="critical")

    def test_update_twice(self):
        _, optimizer, scaler, _ = self.loop()
        fit(self.model, optimizer, scaler, 2)
        self.refuses(AssertionError, "No inf checks were recorded prior to update", scaler.update)
        self.told("update_twice", severity="critical")

    def test_update_without_checks(self):
        _, optimizer, scaler, _ = self.loop()
        for batch in batches(1):
            self.backward(*batch)
        self.refuses(AssertionError, "No inf checks were recorded prior to update", scaler.update)
        self.told("update_without_checks", step=1, severity="critical")

    def test_update_between_unscale_and_step(self):
        _, optimizer, scaler, _ = self.loop()
        for batch in batches(1):
            self.backward(*batch)
        scaler.unscale_(optimizer)
        scaler.update()
        scaler.step(optimizer)
        scaler.update()
        self.told("out_of_order", "between unscale_.* and step", step=2)

    def test_no_gradients(self):
        """gof-2: the graph is cut. PyTorch asserts; without a scaler nobody would notice."""
        model, optimizer, scaler, _ = self.loop()
        scaler.scale(torch.zeros(()))
        self.refuses(AssertionError, "No inf checks were recorded for this optimizer", scaler.step, optimizer)
        self.told("no_inf_checks", "0 of 8 parameters", step=1, severity="critical")
        plain = torch.optim.SGD(model.parameters(), lr=0.1)
        self.watch = self.attach(model, plain, run="no-gradients")
        for _ in range(3):
            plain.step()
        self.told("no_gradients", "0 of 8 parameters of default")

    def test_fp16_parameters(self):
        model, optimizer, scaler, _ = self.loop()
        model[3].half()
        images, classes = next(batches(1))
        with half():
            loss = F.cross_entropy(model(images), classes)
        scaler.scale(loss).backward()
        self.refuses(ValueError, "Attempting to unscale FP16 gradients", scaler.step, optimizer)
        self.told("fp16_parameters", r"3\.weight", step=1, severity="critical")

    def test_fp16_parameters_where_nothing_is_raised(self):
        model = network().half()
        self.model, self.scaler = model, scaler_of()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True, lr=1e-4)
        self.watch = self.attach(model, optimizer, self.scaler)
        fit(model, optimizer, self.scaler, 3)
        self.told("fp16_parameters", r"0\.weight", step=1)

    def test_scale_changed_between_accumulated_backwards(self):
        """One optimizer accumulates over two rounds while the other's update changes the scale under it."""
        torch.manual_seed(0)
        models = [torch.nn.Linear(64, 10), torch.nn.Linear(64, 10)]
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
        self.scaler = scaler_of(growth_interval=3)
        self.watch = self.attach(models, optimizers, self.scaler)
        for step, (images, classes) in enumerate(batches(8), 1):
            optimizers[0].zero_grad()
            for model in models:
                with half():
                    loss = F.cross_entropy(model(images), classes)
                self.scaler.scale(loss).backward()
            self.scaler.step(optimizers[0])
            if step % 2 == 0:
                self.scaler.step(optimizers[1])
            self.scaler.update()
            if step % 2 == 0:
                optimizers[1].zero_grad()
        self.told("scale_changed", "from 1024 to 2048 while optimizer_1", step=4)

    def test_scaler_not_restored(self):
        """A resume that brings the optimizer back and leaves the scaler as it was made; with its state nothing is said."""
        model = network()
        optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-3), scaler_of(init_scale=2.0 ** 16)
        fit(model, optimizer, scaler, 5)
        saved = model.state_dict(), optimizer.state_dict(), scaler.state_dict()
        for restored in (True, False):
            with self.subTest(restored=restored):
                model = network()
                optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-3), scaler_of(init_scale=2.0 ** 16)
                self.watch = self.attach(model, optimizer, scaler, run=f"resume-{restored}")
                model.load_state_dict(saved[0])
                optimizer.load_state_dict(saved[1])
                if restored:
                    scaler.load_state_dict(saved[2])
                fit(model, optimizer, scaler, 5)
                if restored:
                    self.assertEqual(self.findings(self.watch, "Misuse"), [])
                else:
                    self.told("scaler_not_restored", "default", step=1)

    def schedule(self, make, each, steps=60, bad=()):
        model, optimizer, scaler, _ = self.loop()
        self.watch.close()
        scheduler = make(optimizer)
        self.watch = watch = self.attach(model, optimizer, scaler, scheduler=scheduler, run=self.id().rpartition(".")[2] + "-2")
        for step, batch in enumerate(batches(steps), 1):
            optimizer.zero_grad()
            self.backward(*batch)
            if step in bad:
                model[0].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
            each(step, scheduler)
            pace(watch, step)

    def test_scheduler_on_skip(self):
        bad = range(10, 60, 9)
        self.schedule(lambda o: torch.optim.lr_scheduler.LinearLR(o, total_iters=60), lambda _, s: s.step(), bad=bad)
        self.told("scheduler_on_skip", r"after attempt \d+", step=11, severity="warning", only=False)

    def test_scheduler_never(self):
        self.schedule(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=100), lambda *_: None)
        self.told("scheduler_never", "OneCycleLR.step")

    def test_scheduler_once_an_epoch(self):
        """Stepped at every tenth attempt, one of which was skipped: that is no misuse."""
        self.schedule(lambda o: torch.optim.lr_scheduler.StepLR(o, 2), lambda step, s: s.step() if step % 10 == 0 else None, bad=(10, 20))
        self.assertEqual(self.findings(self.watch, "Misuse"), [])

    def test_bad_scale(self):
        _, optimizer, scaler, _ = self.loop()
        fit(self.model, optimizer, scaler, 2)
        for batch in batches(1):
            self.backward(*batch)
        scaler.step(optimizer)
        scaler.update(float("inf"))
        self.told("bad_scale", "inf", step=3)

    def test_right_use_is_silent(self):
        """What looks like misuse and is none: a scale set by hand, a step left out on purpose, zero_grad between scale and
        backward, get_scale to see a skip, one optimizer that rests while the scale changes."""
        models = [network(), network(1)]
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in models]
        self.scaler = scaler = scaler_of(growth_interval=4)
        self.watch = watch = self.attach(models, optimizers, scaler)
        for step, (images, classes) in enumerate(batches(40), 1):
            with half():
                losses = [F.cross_entropy(m(images), classes) for m in models]
            before = scaler.get_scale()
            scaled = scaler.scale(losses[0])
            optimizers[0].zero_grad()
            scaled.backward()
            scaler.unscale_(optimizers[0])
            norm = torch.nn.utils.clip_grad_norm_(models[0].parameters(), 1.0)
            if step % 7 or not torch.isfinite(norm):
                scaler.step(optimizers[0])
            if step % 5 == 0:
                optimizers[1].zero_grad()
                scaler.scale(losses[1]).backward()
                scaler.step(optimizers[1])
            scaler.update()
            self.assertGreater(before, 0)
            pace(watch, step)
        self.assertEqual(self.findings(watch, "Misuse"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
