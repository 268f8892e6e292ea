"""What a function does, as a tree of sequences, branches and loops, and every way through it.

Each loop runs once; a condition that is asked twice gets one answer.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Dict, FrozenSet, List, Optional, Tuple, Union

from .names import Autocast

_MAX_PATHS = 256


@dataclass(frozen=True)
class Guard:
    """A condition that an event stands under, with the loops around it at that point."""

    test: ast.expr
    holds: bool
    loops: Tuple[ast.AST, ...]


@dataclass(frozen=True, eq=False)
class Event:
    """One thing that happens. Kinds: scaled_backward, backward, unscale, step, update, optimizer_step, scheduler_step,
    zero_grad, clip, get_scale, unknown (a call out of sight that is given the scaler or sounds as if it used it)."""

    kind: str
    node: ast.Call
    scaler: str = ""
    target: str = ""
    guards: Tuple[Guard, ...] = ()
    loops: Tuple[ast.AST, ...] = ()
    autocast: Optional[Autocast] = None

    @property
    def owner(self) -> str:
        """X of ``X.step(...)``, as written."""
        return ast.unparse(self.node.func.value) if isinstance(self.node.func, ast.Attribute) else ""

    @property
    def at(self) -> Tuple[int, int]:
        return self.node.lineno, self.node.col_offset


# One way through a function: its events in order.
Path = Tuple[Event, ...]


@dataclass
class Leaf:
    event: Event

    def asked(self) -> FrozenSet[str]:
        return frozenset()


@dataclass
class Sequence:
    parts: List[Part]
    _after: Optional[List[FrozenSet[str]]] = None

    def asked(self) -> FrozenSet[str]:
        """The conditions that are asked inside."""
        return self.asked_after(-1)

    def asked_after(self, number: int) -> FrozenSet[str]:
        """The conditions that are asked behind the part of this number."""
        if self._after is None:
            self._after = [frozenset()]
            for piece in reversed(self.parts):
                self._after.append(self._after[-1] | piece.asked())
            self._after.reverse()
        return self._after[number + 1]


@dataclass
class Branch:
    atom: str
    then: Sequence
    other: Sequence

    def asked(self) -> FrozenSet[str]:
        return self.then.asked() | self.other.asked() | {self.atom}


@dataclass
class Once:
    """A loop's body, or a call's: leaving it by ``exits`` goes on behind it."""

    body: Sequence
    exits: FrozenSet[str]

    def asked(self) -> FrozenSet[str]:
        return self.body.asked()


@dataclass
class Exit:
    kind: str

    def asked(self) -> FrozenSet[str]:
        return frozenset()


Part = Union[Leaf, Sequence, Branch, Once, Exit]


def all_paths(tree: Sequence) -> List[Path]:
    """Every way through, as its events in order; empty if there are too many to look at."""
    ways = _ways(tree, {}, frozenset())
    return [] if ways is None else list({tuple(events): None for events, _, _ in ways})


def matters(part: Sequence) -> bool:
    """True if an event happens in a part, or if it leaves early by itself (guards such as ``if done: return``)."""
    return any(isinstance(piece, Exit) and piece.kind != "raise" for piece in part.parts) or _has_events(part)


def _has_events(part: Part) -> bool:
    if isinstance(part, Leaf):
        return True
    if isinstance(part, Sequence):
        return any(_has_events(piece) for piece in part.parts)
    if isinstance(part, Branch):
        return _has_events(part.then) or _has_events(part.other)
    return isinstance(part, Once) and _has_events(part.body)


_Way = Tuple[Tuple[Event, ...], str, Dict[str, bool]]


def _ways(part: Part, known: Dict[str, bool], later: FrozenSet[str]) -> Optional[List[_Way]]:
    """All ways through a part as (events, exit, answers given); None when there are too many.

    Only answers to conditions that are asked again are kept, so that ways that differ in nothing else are one way.
    """
    if isinstance(part, Leaf):
        return [((part.event,), "", known)]
    if isinstance(part, Exit):
        return [((), part.kind, known)]
    if isinstance(part, Once):
        ways = _ways(part.body, known, later)
        return None if ways is None else _distinct([(e, "" if x in part.exits else x, k) for e, x, k in ways])
    if isinstance(part, Branch):
        if part.atom in known:
            return _ways(part.then if known[part.atom] else part.other, known, later)
        yes = _ways(part.then, {**known, part.atom: True}, later)
        no = _ways(part.other, {**known, part.atom: False}, later)
        return None if yes is None or no is None else _forget(yes + no, later)
    done: List[_Way] = []
    open_ways: List[_Way] = [((), "", known)]
    for number, piece in enumerate(part.parts):
        following: List[_Way] = []
        still = later | part.asked_after(number)
        for events, _, answers in open_ways:
            ways = _ways(piece, answers, still)
            if ways is None:
                return None
            for more, leaving, then in ways:
                (done if leaving else following).append((events + more, leaving, then))
        open_ways, done = _forget(following, still), _forget(done, later)
        if len(open_ways) + len(done) > _MAX_PATHS:
            return None
    return open_ways + done


def _forget(ways: List[_Way], asked: FrozenSet[str]) -> List[_Way]:
    return _distinct([(e, x, {atom: answer for atom, answer in k.items() if atom in asked}) for e, x, k in ways])


def _distinct(ways: List[_Way]) -> List[_Way]:
    return list({(e, x, tuple(sorted(k.items()))): (e, x, k) for e, x, k in ways}.values())
