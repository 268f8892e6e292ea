"""One object, or a list or mapping of them, as attach() is given them."""
from __future__ import annotations

from typing import Any, List, Mapping

__all__ = ["listed", "names"]


def listed(given: Any) -> List[Any]:
    """None gives none."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return list(given.values())
    return list(given) if isinstance(given, (list, tuple)) else [given]


def names(given: Any, count: int, one: str) -> List[str]:
    """The keys of a mapping, else "default" for one and one_0, one_1, ... for several."""
    if isinstance(given, Mapping):
        return [str(key) for key in given]
    return ["default"] if count == 1 else [f"{one}_{number}" for number in range(count)]
