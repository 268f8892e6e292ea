"""Turns a script or a notebook into Python text whose lines can be traced back."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import List, Optional, Tuple

_MAGIC = re.compile(r"^(\s*)[%!?]")
_HARMLESS_CELL_MAGIC = re.compile(r"^%%(time|timeit|capture|prun|memit)\b")
_MAX_BYTES = 8 << 20


class UnreadableSource(Exception):
    """The file can't be read as Python: the message says why, in one line."""


@dataclass(frozen=True)
class Source:
    """Text, its syntax tree, and where its lines came from.

    ``cells`` holds for each line its (cell, line in the cell), both 1-based, for a notebook; it is empty for a script.
    """

    path: str
    text: str
    tree: ast.Module
    cells: Tuple[Tuple[int, int], ...] = ()

    def origin(self, line: int) -> Tuple[Optional[int], int]:
        """The (cell, line) a 1-based line of the text came from."""
        return self.cells[line - 1] if self.cells else (None, line)


def from_text(text: str, path: str = "<script>") -> Source:
    """Parses a script. Raises UnreadableSource when it is not Python."""
    text = text.lstrip("\ufeff")
    try:
        return Source(path, text, _parse(text))
    except SyntaxError as error:
        # A notebook pasted or exported into a .py file keeps its magics.
        plain = _without_magics(text)
        if plain != text:
            try:
                return Source(path, plain, _parse(plain))
            except SyntaxError:
                pass
        raise UnreadableSource(f"line {error.lineno}: {error.msg}") from error


def from_file(path: str) -> Source:
    """Reads a .py or .ipynb file. Raises UnreadableSource; OSError as the system gives it."""
    with open(path, "rb") as stream:
        data = stream.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise UnreadableSource(f"larger than {_MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _from_notebook(text, path) if path.endswith(".ipynb") else from_text(text, path)


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (RecursionError, MemoryError) as error:
        raise UnreadableSource("nested too deeply") from error
    except ValueError as error:  # a NUL byte
        raise UnreadableSource(str(error)) from error


def _from_notebook(text: str, path: str) -> Source:
    try:
        notebook = json.loads(text)
        # Format 3 keeps its cells in worksheets.
        cells = notebook["cells"] if "cells" in notebook else [c for s in notebook["worksheets"] for c in s["cells"]]
        codes = [c.get("source", c.get("input", "")) for c in cells if c["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableSource(f"not a notebook: {error!r}") from error
    lines: List[str] = []
    origins: List[Tuple[int, int]] = []
    for number, code in enumerate(codes, 1):
        body = code if isinstance(code, str) else "".join(str(line) for line in code)
        body = _without_magics(body)
        try:
            _parse(body)
        except SyntaxError:
            # A half-written cell must not hide the others.
            body = ""
        for index, line in enumerate(body.split("\n"), 1):
            lines.append(line)
            origins.append((number, index))
    joined = "\n".join(lines)
    try:
        return Source(path, joined, _parse(joined), tuple(origins))
    except SyntaxError as error:
        raise UnreadableSource(f"line {error.lineno} of the joined cells: {error.msg}") from error


def _without_magics(text: str) -> str:
    lines = text.split("\n")
    if lines and lines[0].startswith("%%") and not _HARMLESS_CELL_MAGIC.match(lines[0]):
        return "\n".join("" for _ in lines)
    plain = []
    for line in lines:
        magic = _MAGIC.match(line)
        plain.append(f"{magic.group(1)}pass" if magic else line)
    return "\n".join(plain)
