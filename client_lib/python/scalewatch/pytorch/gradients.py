"""Where a parameter's gradient is: in p.grad, or where a framework keeps it."""
from __future__ import annotations

import operator
from typing import Any, Callable, Iterable, Union

__all__ = ["GradOf", "gradient_of"]

# The name of an attribute of the parameter, or a function of it that gives the gradient, None = there is none.
GradOf = Union[None, str, Callable[[Any], Any]]

_plain = operator.attrgetter("grad")  # called in C: a lambda would cost as much as all the rest


def _plain_or_main(parameter: Any) -> Any:
    gradient = parameter.grad
    return getattr(parameter, "main_grad", None) if gradient is None else gradient


def gradient_of(chosen: GradOf, parameters: Iterable[Any]) -> Callable[[Any], Any]:
    """What gives the gradient of one of the parameters as it is now. Chosen by nobody: p.grad, and where it is None the main_grad that
    Megatron, Apex and others add up in fp32."""
    if isinstance(chosen, str):
        name = chosen
        return lambda parameter: getattr(parameter, name, None)
    if chosen is not None:
        return chosen
    return _plain_or_main if any(hasattr(p, "main_grad") for p in parameters) else _plain
