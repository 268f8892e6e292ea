"""What a script learns while it trains and after: findings that call it back, history, tables, what a notebook shows, lint."""
import io
import sys
import time
import unittest
import unittest.mock

import torch

import scalewatch
from common import F, Lab, batches, fit, half, network, scaler_of


class Answers(Lab):
    def test_answers_and_callbacks(self):
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), scaler_of()
        watch = self.attach(model, optimizer, scaler, strict=False)
        told = []

        @watch.on_finding
        def react(finding):
            told.append(finding)
            raise ValueError("a callback's own error stays out of training")

        def poison(step):
            if step > 12:
                with torch.no_grad():
                    model[0].weight.fill_(float("nan"))
        steps = 0
        end = time.monotonic() + 30
        with self.assertLogs("scalewatch", "WARNING"):
            while not told and time.monotonic() < end:
                fit(model, optimizer, scaler, 8, watch, each=lambda s: poison(steps + s))
                steps += 8
        self.assertTrue(told)
        watch._callbacks.called[:] = [lambda finding: (_ for _ in ()).throw(scalewatch.StopTraining(finding.rule))]
        watch._callbacks.waiting.append(told[0])
        with self.assertRaises(scalewatch.StopTraining):
            fit(model, optimizer, scaler, 1)
        watch.close()
        history = watch.history("0.*", role="gradient")
        self.assertEqual({p.tensor for p in history}, {"0.weight", "0.bias"})
        page = watch._repr_html_()
        self.assertIn("<svg", page)
        self.assertIn("critical", page)
        self.assertEqual(watch.lint(__file__), watch.lint(__file__))


    def test_tables(self):
        """Findings and history as pandas, as Arrow, and as dicts: whatever is installed."""
        model = torch.nn.Linear(64, 10)
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), scaler_of()
        watch = self.attach(model, optimizer, scaler)
        fit(model, optimizer, scaler, 10, watch, each=lambda step: scaler.update(float("inf")) if step == 8 else None)
        found, history = self.findings(watch), watch.history("*", role="gradient")
        self.assertTrue(found and len(history) == 20)
        for without, kind in (((), "pandas.DataFrame"), (("pandas",), "pyarrow.lib.Table"), (("pandas", "pyarrow"), "builtins.list")):
            with self.subTest(kind), unittest.mock.patch.dict(sys.modules, {name: None for name in without}):
                for rows in (found, history):
                    made = scalewatch.table(rows)
                    self.assertEqual(f"{type(made).__module__.removesuffix('.core.frame')}.{type(made).__name__}", kind)
                    self.assertEqual(len(made), len(rows))
                    lines = made if kind == "builtins.list" else made.to_pylist() if "arrow" in kind else made.to_dict("records")
                    self.assertEqual([line.get("id", line.get("tensor")) for line in lines],
                                     [getattr(row, "id", row.tensor) for row in rows])

    def test_a_callback_that_checkpoints_lowers_and_stops(self):
        """As a script would: at a warning the rate is halved, at a critical finding the model is saved and training ends."""
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), scaler_of(init_scale=2.0 ** 10)
        watch = self.attach(model, optimizer, scaler)
        saved, rates = io.BytesIO(), []

        @watch.on_finding
        def react(finding):
            rates.append((finding.severity, optimizer.param_groups[0]["lr"]))
            for group in optimizer.param_groups:
                group["lr"] /= 2
            if finding.severity == "critical":
                torch.save({"model": model.state_dict(), "scaler": scaler.state_dict(), "step": watch.attempt}, saved)
                raise scalewatch.StopTraining(finding.summary)

        def overflow(_):
            model[0].weight.grad[0, 0] = float("inf")
        with self.assertRaisesRegex(scalewatch.StopTraining, "."):
            for step, (images, classes) in enumerate(batches(100_000, size=8), 1):
                optimizer.zero_grad()
                with half():
                    loss = F.cross_entropy(model(images), classes)
                scaler.scale(loss).backward()
                if step > 10:
                    overflow(step)
                scaler.step(optimizer)
                scaler.update()
                watch.wait_durable(20)
        self.assertEqual(rates[-1][0], "critical")
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1 / 2 ** len(rates))
        saved.seek(0)
        self.assertEqual(torch.load(saved)["step"], watch.attempt)
        self.assertTrue(watch.close(20))


if __name__ == "__main__":
    unittest.main(verbosity=2)
