"""Correct training scripts in the styles that people write: none of them may be talked about."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "client_lib" / "python" / "scalewatch"))

import lint  # noqa: E402


class Corpus(unittest.TestCase):
    def test_silent(self):
        scripts = sorted((HERE / "corpus").glob("*.py"))
        self.assertGreaterEqual(len(scripts), 40)
        for script in scripts:
            with self.subTest(script=script.name):
                self.assertEqual([str(f) for f in lint.check_file(str(script))], [])


if __name__ == "__main__":
    unittest.main()
