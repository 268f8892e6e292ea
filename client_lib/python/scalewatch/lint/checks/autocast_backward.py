"""A backward pass inside an autocast region."""

from __future__ import annotations

from typing import Iterator

from ..analysis import Analysis, Rule
from ..finding import Finding

BACKWARD = Rule("backward-in-autocast", "warning", "backward pass inside an autocast region")
RULES = (BACKWARD,)


def run(analysis: Analysis) -> Iterator[Finding]:
    seen = set()
    for flow in analysis.flows:
        for event in flow.of("backward", "scaled_backward"):
            if event.autocast is None or not event.autocast.enabled or event.at in seen:
                continue
            seen.add(event.at)
            yield analysis.finding(
                BACKWARD, event.node, "Autocast belongs around the forward pass and the loss only. Backward operations already run in "
                "the type that autocast chose for their forward ones; inside the region they are cast a second time, which "
                "PyTorch advises against.",
                f"with autocast(...):\n    ...  # forward and loss\n{analysis.line(event.node)}  # outside the region")
