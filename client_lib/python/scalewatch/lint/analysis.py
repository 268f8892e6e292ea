"""What every check is given: the script, its flows, and the way to report."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List, Set, Tuple, Union

from .finding import Finding
from .flow import Flow, flows
from .paths import Event, Path
from .script import Script


# What has a place in the text.
Node = Union[ast.expr, ast.stmt]


@dataclass(frozen=True)
class Rule:
    """A check's name (stable: it stands in ignore comments), its severity and what it is about, in one line."""

    name: str
    severity: str
    summary: str


# A judgement of one event on one path: (event, is it wrong, what the message needs). No judgement: the path says nothing.
Verdict = Tuple[Event, bool, Any]


class Analysis:
    """One script, read."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.flows: List[Flow] = flows(script)
        self._paths = [(flow, flow.paths()) for flow in self.flows]

    def always(self, judge: Callable[[Path], Iterable[Verdict]]) -> Iterator[Tuple[Event, Any]]:
        """The events that are wrong on every path that says anything about them, each once, with what judge gave."""
        wrong: Dict[Tuple[int, int], Tuple[Event, Any]] = {}
        right: Set[Tuple[int, int]] = set()
        for _, paths in self._paths:
            for path in paths:
                for event, is_wrong, detail in judge(path):
                    if is_wrong:
                        wrong.setdefault(event.at, (event, detail))
                    else:
                        right.add(event.at)
        return (found for at, found in sorted(wrong.items()) if at not in right)

    def finding(self, rule: Rule, node: Node, message: str, fix: str) -> Finding:
        """A finding at a node of the tree; the fix may have several lines."""
        source = self.script.source
        cell, line = source.origin(node.lineno)
        text = source.text.split("\n")[node.lineno - 1]
        column = len(text.encode("utf-8")[:node.col_offset].decode("utf-8", "replace")) + 1
        return Finding(source.path, line, column, rule.name, rule.severity, message, text.strip(), fix, cell)

    def line(self, node: Node) -> str:
        """The first line of a node, as it stands."""
        return self.script.line(node.lineno)

    def statement(self, node: ast.AST) -> str:
        """The statement around a node, on one line."""
        return ast.unparse(self.script.statement(node))
