"""Processes that fork, spawn, fail, are interrupted or end in the middle: training goes on or ends as it would, and nothing is said."""
import os
import signal
import subprocess
import sys
import textwrap
import unittest

import torch

from common import Lab, fit, harness, network, scaler_of

HERE = os.path.dirname(os.path.abspath(__file__))

BEGIN = """
import os, signal, sys, time
sys.path.insert(0, {here!r})
if __name__ == "__main__":
    from common import *
    import scalewatch
    model = network()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
    watch = scalewatch.attach(model, optimizer, scaler, activations="*", **{where!r})
    fit(model, optimizer, scaler, 10, watch)
"""


class Lifetime(Lab):
    def script(self, body, expect=0, where=None, timeout=120):
        text = textwrap.dedent(BEGIN).format(here=HERE, where=where or self.where())
        text += textwrap.indent(textwrap.dedent(body), "    ")
        path = os.path.join(self._folder, f"{self.id().rpartition('.')[2]}.py")
        with open(path, "w") as file:
            file.write(text)
        # As from a terminal: in a job of a shell's background the interrupt is ignored, and children inherit that.
        done = subprocess.run([sys.executable, path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def attempts(self):
        import scalewatch
        told = scalewatch.Questions(self.id().rpartition(".")[2], self.server.address, self.server.http).summary
        harness.wait_for("the goodbye", lambda: told()["status"] == "RUN_STATUS_FINISHED")
        return int(told()["attempts"])

    def test_the_end_of_the_script(self):
        done = self.script("")
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.attempts(), 10)

    def test_an_exception(self):
        done = self.script("raise ValueError('of the script')", expect=1)
        self.assertEqual(done.stderr.count("Traceback"), 1)
        self.assertTrue(done.stderr.endswith("ValueError: of the script\n"))
        self.assertEqual(self.attempts(), 10)

    def test_an_interrupt(self):
        done = self.script("""
            def interrupt(step):
                if step == 5:
                    os.kill(os.getpid(), signal.SIGINT)
            fit(model, optimizer, scaler, 20, each=interrupt)
            """, expect=-2)
        self.assertEqual(done.stderr.count("Traceback"), 1)
        self.assertIn("KeyboardInterrupt", done.stderr)
        self.assertGreaterEqual(self.attempts(), 14)

    def test_fork_and_workers(self):
        """Data loader workers and a fork that trains on by itself: neither reports, and neither is disturbed."""
        done = self.script("""
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(IMAGES, CLASSES), batch_size=256, num_workers=2)
            for images, classes in loader:
                optimizer.zero_grad()
                with half():
                    loss = F.cross_entropy(model(images), classes)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            child = os.fork()
            if child == 0:
                losses = fit(model, optimizer, scaler, 3)
                watch.close()
                os._exit(0 if len(losses) == 3 else 1)
            assert os.waitpid(child, 0)[1] == 0
            watch.wait_durable()
            assert watch.attempt == 18, watch.attempt
            """)
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.attempts(), 18)

    def test_a_fork_that_attaches(self):
        """The client library can't be used on both sides of a fork: said, for the child is meant to be watched."""
        done = self.script("""
            child = os.fork()
            if child == 0:
                mine = scalewatch.attach(model, optimizer, scaler, run="child", server=watch.questions.server)
                losses = fit(model, optimizer, scaler, 3)
                os._exit(0 if len(losses) == 3 and not mine.close() else 1)
            assert os.waitpid(child, 0)[1] == 0
            """)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("run child: it is not watched: ScalewatchError: a parent of this process opened a monitor before the fork", done.stderr)
        self.assertEqual(self.attempts(), 10)

    def test_spawn(self):
        done = self.script("""
            import torch.multiprocessing
            context = torch.multiprocessing.get_context("spawn")
            process = context.Process(target=torch.nn.Module.eval, args=(model,))  # with the hooks on it
            process.start()
            process.join()
            assert process.exitcode == 0
            """)
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.attempts(), 10)

    def test_without_a_server(self):
        """One line on stderr, and an end without a wait."""
        where = self.where(server="127.0.0.1:1")
        done = self.script("print(watch.close())", where=where)
        self.assertEqual(done.stdout, "False\n")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("no connection", done.stderr)

    def test_a_library_that_fails_fails_alone(self):
        """Whatever goes wrong within, it is said once and training goes on; strict, it is raised."""
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
        watch = self.attach(model, optimizer, scaler, strict=False)
        fit(model, optimizer, scaler, 2)
        watch._table.native = watch._native = None

        def broken(*_):
            raise RuntimeError("broken within")
        watch._started = broken
        with self.assertLogs("scalewatch", "WARNING") as said:
            self.assertEqual(len(fit(model, optimizer, scaler, 5)), 5)
        self.assertEqual(len(said.records), 1)
        watch.strict = True
        with self.assertRaisesRegex(RuntimeError, "broken within"):
            fit(model, optimizer, scaler, 1)

    def test_a_client_that_does_not_open(self):
        """Said once, and not tried again at each attempt."""
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
        watch = self.attach(model, optimizer, scaler, strict=False, buffer_bytes=1)
        with self.assertLogs("scalewatch", "WARNING") as said:
            self.assertEqual(len(fit(model, optimizer, scaler, 5)), 5)
        self.assertEqual(len(said.records), 1)
        self.assertIn("buffer_bytes", said.output[0])
        self.assertEqual(watch.attempt, 0)
        self.assertFalse(watch.close())

    def test_names_that_can_not_be(self):
        """A tensor that can't be declared is left out; the others are watched."""
        model = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4), "long" * 200: torch.nn.Linear(4, 4)})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        watch = self.attach(model, optimizer)
        sum(m(torch.ones(1, 4)).sum() for m in model.values()).backward()
        optimizer.step()
        self.assertIn("longlong", " ".join(watch.not_observable))
        self.findings(watch)
        self.assertEqual({p.tensor for p in watch.questions.attempt()}, {"a.weight", "a.bias"})

    def test_a_cell_that_is_run_again(self):
        """The same objects, or the same run: the earlier watch ends by itself, and only one counts."""
        model = network()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), scaler_of()
        first = self.attach(model, optimizer, scaler)
        fit(model, optimizer, scaler, 4, first)
        second = self.attach(model, optimizer, scaler, run="another")
        self.assertTrue(first.closed)
        third = self.attach(network(), torch.optim.SGD(network().parameters(), lr=0.1), run="another")
        self.assertTrue(second.closed)
        third.close()
        watch = self.attach(model, optimizer, scaler, run="once-more")
        fit(model, optimizer, scaler, 4, watch)
        self.assertEqual((first.attempt, second.attempt, watch.attempt), (4, 0, 4))
        self.assertTrue(watch.close())
        watch.close()
        fit(model, optimizer, scaler, 2)  # and after it nothing is left
        self.assertEqual(watch.attempt, 4)

    def test_labels_of_any_kind(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        watch = self.attach(model, optimizer, labels={"lr": 0.05, "seed": 3, "amp": True})
        model(torch.ones(2, 64)).sum().backward()
        optimizer.step()
        self.findings(watch)
        self.assertEqual(watch.questions.summary()["labels"], {"lr": "0.05", "seed": "3", "amp": "True"})

    def test_wrong_arguments(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for error, arguments, options in ((ValueError, (model, optimizer), {"run": ""}), (ValueError, (model, optimizer), {"run": "a\nb"}),
                                          (TypeError, ("model", optimizer), {}), (TypeError, (model, "adam"), {}),
                                          (TypeError, (model, optimizer, "scaler"), {}),
                                          (TypeError, (model, [optimizer], [scaler_of(), scaler_of()]), {}),
                                          (ValueError, (model, optimizer), {"every": {"gradients": 2}}),
                                          (ValueError, (model, optimizer), {"compute_dtype": "half"}),
                                          (TypeError, (model, optimizer), {"activation": "*"}),
                                          (ValueError, (model, optimizer), {"labels": dict.fromkeys(range(33))}),
                                          (ValueError, (model, optimizer), {"rank": 2, "world_size": 2})):
            with self.subTest(options or arguments), self.assertRaises(error):
                self.attach(*arguments, **options)
        self.assertEqual((len(optimizer._optimizer_step_pre_hooks), len(model._forward_pre_hooks)), (0, 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
