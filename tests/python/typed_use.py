"""A script that uses the package's types; hand_test.py has mypy read it. It is not run."""
from typing import Any, Dict, List

import scalewatch
from scalewatch import lint
from scalewatch.pytorch import TorchWatch


def react(finding: scalewatch.Finding) -> None:
    if finding.severity == "critical" and finding.advice[0].confidence > 0.5:
        raise scalewatch.StopTraining(finding.summary)


def use(model: Any, optimizer: Any, scaler: Any) -> None:
    watch: TorchWatch = scalewatch.attach(model, optimizer, scaler, run="typed", every={"parameter": 5}, grad_of="main_grad")
    watch.on_finding(react)
    durable: bool = watch.close(timeout=2.0)
    first: List[int] = [finding.first_attempt for finding in watch.findings(open_only=durable)]
    told: Dict[str, Any] = watch.whatif("megatron", hysteresis=2.0)
    largest: List[float] = [point.absmax for point in watch.history("layers.*") if point.absmax is not None]
    lines: List[str] = [f"{found.line}: {found.rule}" for found in lint.check_file("train.py")]
    print(first, told, largest, lines, scalewatch.version())
    with scalewatch.Watch("by hand", compute_dtype="float32", histogram_every=10) as hand:
        hand.observe("x", [1.0], role="gradient")
