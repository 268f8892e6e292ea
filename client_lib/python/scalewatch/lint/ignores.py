"""``# scalewatch: ignore`` and ``# scalewatch: ignore[rule, rule]`` comments."""

from __future__ import annotations

import io
import re
import tokenize
from typing import Dict, FrozenSet

_COMMENT = re.compile(r"#\s*scalewatch:\s*ignore(?:\[([^\]]*)\])?")
_ALL = frozenset(["*"])


class Ignores:
    """Which rules are silenced on which lines: the comment's own line, or the next one if it stands alone."""

    def __init__(self, text: str) -> None:
        self._lines: Dict[int, FrozenSet[str]] = {}
        if "scalewatch:" not in text:
            return
        try:
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type != tokenize.COMMENT:
                    continue
                match = _COMMENT.search(token.string)
                if not match:
                    continue
                names = match.group(1)
                rules = _ALL if names is None else frozenset(name.strip() for name in names.split(","))
                line, column = token.start
                line += not token.line[:column].strip()
                self._lines[line] = self._lines.get(line, frozenset()) | rules
        except (tokenize.TokenError, IndentationError):
            # ast parsed the text; what tokenize can't finish has no comment worth reading behind it.
            return

    def covers(self, line: int, rule: str) -> bool:
        rules = self._lines.get(line, frozenset())
        return "*" in rules or rule in rules
