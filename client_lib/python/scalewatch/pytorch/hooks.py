"""What is put on the objects of a script: callables that leave no trace in copies and pickles of those objects."""
from __future__ import annotations

import contextlib
import functools
import types
from typing import Any, Callable, Tuple

__all__ = ["Hook", "Wrapped", "wrap"]


def _nothing() -> Tuple[Any, ...]:
    # Takes any arguments, returns None, and is the standard library's: a checkpoint that was pickled with a hook in it loads
    # where this package is not installed.
    return getattr, (contextlib.nullcontext(), "__exit__")


class Hook:
    """A hook on a module. Pickled (torch.save of a whole model) or copied (an EMA of it), it becomes one that does nothing."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)

    def __reduce__(self) -> Any:
        return _nothing()

    def __deepcopy__(self, memo: Any) -> Any:
        make, arguments = _nothing()
        return make(*arguments)


class Wrapped:
    """Stands in for one method of one object, as an attribute of its own. Copies and pickles of the object get their plain method."""

    def __init__(self, method: Any, around: Callable[..., Any]) -> None:
        functools.update_wrapper(self, method)
        self._method, self._around = method, around

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._around(self._method, *arguments, **keywords)

    def __reduce__(self) -> Any:
        return getattr, (self._method.__self__, self._method.__name__)

    def __deepcopy__(self, memo: Any) -> Any:
        import copy
        return types.MethodType(self._method.__func__, copy.deepcopy(self._method.__self__, memo))


def wrap(thing: Any, name: str, around: Callable[..., Any]) -> Callable[[], None]:
    """Puts around(original, *args, **kwargs) in place of thing.name, for this object only. Returns what undoes it; where somebody
    else has put theirs over it since, it stays and passes everything on."""
    before = thing.__dict__.get(name)
    method = getattr(thing, name)
    if not hasattr(method, "__self__"):  # somebody's own function: it has no object to be bound to in a copy
        wrapped: Any = functools.wraps(method)(lambda *a, **k: around(method, *a, **k))
    else:
        wrapped = Wrapped(method, around)
    setattr(thing, name, wrapped)

    def undo() -> None:
        if thing.__dict__.get(name) is not wrapped:
            return
        if before is None:
            delattr(thing, name)
        else:
            setattr(thing, name, before)

    return undo
