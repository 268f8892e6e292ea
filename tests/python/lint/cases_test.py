"""For each rule: scripts in which it must fire at the marked line, and near misses in which nothing may be said.

A file of cases/ holds a preamble and cases, each begun by `### fire: ...` or `### quiet: ...`. A line that must be reported
ends in `#! rule`; every other finding fails the case.
"""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "client_lib" / "python" / "scalewatch"))

import lint  # noqa: E402

del sys.path[0]  # the folder also holds a lightning.py

_MARK = re.compile(r"\s*#! (\S+)$")


def _sections(path):
    parts = re.split(r"^### (.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2]))


def _expected(text):
    """The script without its marks, and the (line, rule) pairs that they name."""
    lines, marks = [], set()
    for number, line in enumerate(text.split("\n"), 1):
        mark = _MARK.search(line)
        if mark:
            marks.add((number, mark.group(1)))
        lines.append(_MARK.sub("", line))
    return "\n".join(lines), marks


class Cases(unittest.TestCase):
    def test_every_case(self):
        fired, quiet = {}, {}
        for path in sorted((HERE / "cases").glob("*.txt")):
            sections = _sections(path)
            self.assertEqual(sections[0][0], "preamble", path.name)
            for title, body in sections[1:]:
                script, marks = _expected(sections[0][1] + body)
                with self.subTest(file=path.name, case=title):
                    found = lint.check(script)
                    self.assertEqual({(f.line, f.rule) for f in found}, marks, "\n".join(map(str, found)))
                    self.assertEqual(title.startswith("fire:"), bool(marks))
                    for finding in found:
                        self.assertEqual(finding.code, script.split("\n")[finding.line - 1].strip())
                        self.assertTrue(finding.fix and finding.message)
                for _, rule in marks:
                    fired[rule] = fired.get(rule, 0) + 1
                quiet[path.stem] = quiet.get(path.stem, 0) + (not marks)
        self.assertEqual({rule for rule in lint.RULES if fired.get(rule, 0) < 4}, set(), "four places for every rule")
        self.assertEqual({name for name, count in quiet.items() if count < 4}, set(), "four near misses in every file")


if __name__ == "__main__":
    unittest.main()
