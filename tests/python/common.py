"""What the tests of the Python package share: a real scalewatchd, real data, and a training loop as people write it."""
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))

import torch  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

import harness  # noqa: E402
import scalewatch  # noqa: E402

torch.set_num_threads(1)
F = torch.nn.functional


def digits():
    """(1797 images of 64 values from 0 to 1, their classes)."""
    data = load_digits()
    return torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target)


IMAGES, CLASSES = digits()


def batches(count, size=64, seed=0):
    chosen = torch.Generator().manual_seed(seed)
    for _ in range(count):
        at = torch.randint(0, len(IMAGES), (size,), generator=chosen)
        yield IMAGES[at], CLASSES[at]


def network(seed=0, width=64):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.BatchNorm1d(width), torch.nn.ReLU(), torch.nn.Linear(width, width),
                               torch.nn.ReLU(), torch.nn.Linear(width, 10))


def half():
    return torch.autocast("cpu", dtype=torch.float16)


def scaler_of(**options):
    return torch.amp.GradScaler("cpu", **{"init_scale": 1024.0, **options})


def fit(model, optimizer, scaler, steps=40, watch=None, seed=0, each=None):
    """A plain loop. each(step): called at its end. A watch is waited for now and then: without it a loop as fast as this one has
    more attempts on their way than the client keeps."""
    losses = []
    for step, (images, classes) in enumerate(batches(steps, seed=seed), 1):
        optimizer.zero_grad()
        with half():
            loss = F.cross_entropy(model(images), classes)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        if each is not None:
            each(step)
        pace(watch, step)
    return losses


def pace(watch, step):
    if watch is not None and step % 8 == 0:
        watch.wait_durable(20)


class Lab(unittest.TestCase):
    """A class of tests with one server."""

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.mkdtemp(prefix="scalewatch-")
        cls.addClassCleanup(shutil.rmtree, cls._folder, ignore_errors=True)
        cls.server = harness.Server(cls._folder).start()
        cls.addClassCleanup(harness.Case._end_server, cls.server)

    def where(self, **options):
        return {"run": self.id().rpartition(".")[2], "server": self.server.address, "http": self.server.http, "strict": True, **options}

    def attach(self, model, optimizer=None, scaler=None, **options):
        watch = scalewatch.attach(model, optimizer, scaler, **self.where(**options))
        self.addCleanup(watch.close, 0)
        return watch

    def findings(self, watch, *rules):
        """All findings of the run once it has said goodbye; with rules, those only."""
        self.assertTrue(watch.close(20))
        harness.wait_for("the goodbye", lambda: watch.questions.summary()["status"] == "RUN_STATUS_FINISHED")
        return [one for one in watch.findings(every_segment=True) if not rules or one.rule in rules]

    def assert_silent(self, watch):
        """Nothing worse than info."""
        bad = [f for f in self.findings(watch) if f.severity != "info"]
        self.assertEqual([(f.rule, f.summary) for f in bad], [])
