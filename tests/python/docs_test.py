"""Every public name says what it takes, in which unit, and what it raises; and the types that are written down are those of the
running package."""
import dataclasses
import importlib
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import scalewatch
from common import ROOT, torch

MODULES = ("scalewatch", "scalewatch.pytorch", "scalewatch.huggingface", "scalewatch.lightning", "scalewatch.lint")
# Where a parameter or field of this name stands, the text must hold one of these words: its unit, its shape, or what it may be.
SAYS = {"timeout": ("second",), "array": ("shape",), "max_points": ("at most",), "world_size": ("ranks",), "every": ("attempt",),
        "server": ("host:port",), "http": ("port 9464",), "buffer_bytes": ("byte",), "spool_bytes": ("byte",), "scale": ("multiplied",),
        "run": ("bytes", "$SCALEWATCH_RUN"), "labels": ("32",), "confidence": ("0 to 1",), "headroom": ("octaves",),
        "line": ("1-based",), "first_attempt": ("from 1",)}
ERRORS = re.compile(r"\b[Rr]ais(?:es?|ed|ing)\b|\w+Error\b|[Nn]ever raise")


def public():
    """(path, thing, its class or None) of every public name, functions and methods, properties and classes."""
    for module in map(importlib.import_module, MODULES):
        assert module.__doc__, module
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing):
                yield f"{module.__name__}.{name}", thing, None
            for key, member in inspect.getmembers(thing) if inspect.isclass(thing) else ():
                home = next((c for c in thing.__mro__ if key in c.__dict__), object)
                if key.startswith("_") or not home.__module__.startswith("scalewatch"):
                    continue
                if callable(member) or isinstance(member, property):
                    yield f"{module.__name__}.{name}.{key}", member, thing


def is_hook(path, owner):
    """A framework's own method, which tells of itself there."""
    return owner is not None and any(hasattr(base, path.rpartition(".")[2]) for base in owner.__mro__[1:]
                                     if not base.__module__.startswith("scalewatch"))


def text_of(thing):
    """The docstring; of a class __init__'s too, of a dataclass also what stands beside each field."""
    text = inspect.getdoc(thing) or ""
    if inspect.isclass(thing):
        text += "\n" + (inspect.getsource(thing) if dataclasses.is_dataclass(thing) else inspect.getdoc(thing.__init__) or "")
    return text


def takes(thing):
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return []
    return [p.name for p in signature.parameters.values() if p.name != "self" and not p.name.startswith("_")]


class Docs(unittest.TestCase):
    def test_everything_has_one(self):
        self.assertGreater(len(list(public())), 70)
        self.assertEqual([path for path, thing, owner in public() if len((inspect.getdoc(thing) or "").split()) < 3], [])

    def test_parameters_are_explained(self):
        wrong = []
        for path, thing, owner in public():
            if isinstance(thing, property) or is_hook(path, owner) or inspect.isclass(thing) and issubclass(thing, BaseException):
                continue
            text = text_of(thing)
            if path.endswith(".TorchWatch"):
                self.assertIn("scalewatch.attach", text)  # it tells there
                continue
            for name in takes(thing):
                if not re.search(rf"(?<![\w.]){re.escape(name)}\b", text):
                    wrong.append(f"{path}: {name} is not explained")
                elif name in SAYS and not any(word in text for word in SAYS[name]):
                    wrong.append(f"{path}: {name}: none of {SAYS[name]}")
        self.assertEqual(wrong, [])

    def test_attributes_are_explained(self):
        """What an object holds under a public name stands in the docstring of its class, or it is no public name."""
        model = torch.nn.Linear(2, 2)
        made = (scalewatch.Watch("docs"), scalewatch.attach(model, torch.optim.SGD(model.parameters(), 0.1), run="docs-2"),
                scalewatch.Questions("docs"), scalewatch.ScalewatchError(1, "text"))
        wrong = [f"{type(thing).__name__}.{name}" for thing in made for name in vars(thing) if not name.startswith("_")
                 and not any(re.search(rf"\b{name}\b", text_of(one)) for one in type(thing).__mro__[:-1])]
        for thing in made[:2]:
            thing.close(0)
        self.assertEqual(wrong, [])

    def test_errors_are_told(self):
        """By the function, or by its class for all of its kind."""
        wrong = []
        for path, thing, owner in public():
            if isinstance(thing, property) or is_hook(path, owner) or inspect.isclass(thing) and (
                    issubclass(thing, BaseException) or dataclasses.is_dataclass(thing)):
                continue
            if not ERRORS.search(text_of(thing)) and not (owner is not None and ERRORS.search(text_of(owner))):
                wrong.append(path)
        self.assertEqual(wrong, [])

    def test_types(self):
        """mypy reads the package as a user does: with the marker and the annotations that the wheel carries."""
        self.assertTrue((pathlib.Path(scalewatch.__file__).parent / "py.typed").is_file())
        script = pathlib.Path(__file__).with_name("typed_use.py")
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "--follow-imports", "silent",
                               str(script)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_written_types_are_the_running_ones(self):
        """mypy's stubtest imports the package and holds its signatures against the types."""
        with tempfile.TemporaryDirectory() as folder:
            allowed = pathlib.Path(folder) / "allowed"
            allowed.write_text("scalewatch\\.lint\\.finding\\.Finding\\._DT\n")  # mypy's own, of a dataclass with an order
            done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "scalewatch", "--ignore-missing-stub", "--concise", "--allowlist",
                                   str(allowed), "--mypy-config-file", str(ROOT / "tests/python/mypy.ini")],
                                  cwd=ROOT / "tests/python", capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-1000:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
