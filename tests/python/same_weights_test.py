"""Watching changes no bit: weights, optimizer and scaler state, and random numbers after training, with and without it, in every style."""
import contextlib
import unittest

import torch
from torch.utils.checkpoint import checkpoint

from common import F, Lab, batches, network, pace, scaler_of


class Tied(torch.nn.Module):
    """Shared and sparse parameters, dropout, a part that is recomputed, an in-place module."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.words = torch.nn.Embedding(17, 64, sparse=True)
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(inplace=True), torch.nn.Dropout(0.3))
        self.again = torch.nn.Linear(64, 64)
        self.again.weight = self.body[0].weight
        self.head = torch.nn.Linear(64, 10)

    def forward(self, images):
        x = images + self.words((images[:, 0] * 16).long())
        return self.head(self.again(checkpoint(self.body, x, use_reentrant=False)))


def sgd(model, **options):
    return [torch.optim.SGD([p for n, p in model.named_parameters() if n != "words.weight"], lr=0.05, momentum=0.9, **options)]


def tied(model):
    return sgd(model) + [torch.optim.SparseAdam([model.words.weight], lr=1e-3)]


# name: (model, optimizers of it, scaler, its training options)
STYLES = {
    "plain": (network, sgd, lambda: scaler_of(), {}),
    "overflows": (network, sgd, lambda: scaler_of(init_scale=2.0 ** 24, growth_interval=3), {}),
    "clipped": (network, sgd, lambda: scaler_of(), {"clip": 0.5}),
    "accumulated": (network, sgd, lambda: scaler_of(), {"micro": 4, "clip": 0.5}),
    "kept gradients": (network, sgd, lambda: scaler_of(), {"set_to_none": False}),
    "fused": (network, lambda m: [torch.optim.AdamW(m.parameters(), lr=0.02, fused=True)], lambda: scaler_of(init_scale=2.0 ** 20), {}),
    "foreach": (network, lambda m: [torch.optim.Adam(m.parameters(), lr=0.02, foreach=True)], lambda: scaler_of(), {}),
    "bf16": (network, sgd, lambda: None, {"dtype": torch.bfloat16}),
    "fp32": (network, sgd, lambda: None, {"dtype": None}),
    "tied and sparse": (Tied, tied, lambda: scaler_of(), {}),
    "compiled": (lambda: torch.compile(network(), backend="aot_eager"), sgd, lambda: scaler_of(), {}),
}


class SameWeights(Lab):
    def train(self, style, watched):
        make, optimizers_of, make_scaler, options = STYLES[style]
        model, scaler = make(), make_scaler()
        optimizers = optimizers_of(model)
        watch = None
        if watched:
            watch = self.attach(model, optimizers, scaler, run=style, activations="*", histogram_every=1,
                                every={role: 1 for role in ("parameter", "optimizer_state")})
        torch.manual_seed(9)
        micro = options.get("micro", 1)
        for step, (images, classes) in enumerate(batches(24 * micro, 32), 1):
            dtype = options.get("dtype", torch.float16)
            with torch.autocast("cpu", dtype=dtype) if dtype else contextlib.nullcontext():
                loss = F.cross_entropy(model(images), classes) / micro
            (loss if scaler is None else scaler.scale(loss)).backward()
            if step % micro:
                continue
            for optimizer in optimizers:
                if scaler is not None and options.get("clip"):
                    scaler.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_(model.parameters(), options["clip"])
                if scaler is None:
                    optimizer.step()
                else:
                    scaler.step(optimizer)
                optimizer.zero_grad(set_to_none=options.get("set_to_none", True))
            if scaler is not None:
                scaler.update()
            pace(watch, step)
        if watch is not None:
            self.assertTrue(watch.close(20))
            self.assertEqual(watch.attempt, 24)
        random = torch.get_rng_state()
        return model.state_dict(), [one.state_dict() for one in optimizers], scaler and scaler.state_dict(), random

    def assert_same(self, one, other, path="state"):
        self.assertIs(type(one), type(other), path)
        if isinstance(one, torch.Tensor):
            self.assertEqual((one.dtype, one.shape), (other.dtype, other.shape), path)
            self.assertTrue(torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
                            if one.dim() else torch.equal(one, other), path)
        elif isinstance(one, dict):
            self.assertEqual(list(one), list(other), path)
            for key in one:
                self.assert_same(one[key], other[key], f"{path}.{key}")
        elif isinstance(one, (list, tuple)):
            self.assertEqual(len(one), len(other), path)
            for number, pair in enumerate(zip(one, other)):
                self.assert_same(*pair, f"{path}.{number}")
        else:
            self.assertEqual(one, other, path)

    def test_every_style(self):
        for style in STYLES:
            with self.subTest(style):
                self.assert_same(self.train(style, False), self.train(style, True))


if __name__ == "__main__":
    unittest.main(verbosity=2)
