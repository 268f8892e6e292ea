"""The command line, notebooks, ignore comments and the shapes that tools rely on."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "client_lib" / "python"
sys.path.insert(0, str(PACKAGE / "scalewatch"))

import lint  # noqa: E402

del sys.path[0]  # the folder also holds a lightning.py

FAULTY = """\
import torch
scaler = torch.cuda.amp.GradScaler()
for x in loader:
    scaler.scale(model(x)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
CLEAN = FAULTY.replace("    torch.nn", "    scaler.unscale_(optimizer)\n    torch.nn")
CLIP = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def notebook(*cells):
    kinds = [{"cell_type": "markdown", "source": ["# text"]}]
    kinds += [{"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": [], "metadata": {}} for cell in cells]
    return json.dumps({"cells": kinds, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run_lint(self, *arguments):
        return subprocess.run([sys.executable, "-B", "-m", "scalewatch.lint", *arguments], cwd=PACKAGE, capture_output=True,
                              text=True, timeout=120, check=False)

    def test_text_output_and_exit_codes(self):
        faulty, clean = self.write("faulty.py", FAULTY), self.write("clean.py", CLEAN)
        done = self.run_lint(clean)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        done = self.run_lint(clean, faulty)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"{faulty}:5:5: error [clip-before-unscale]", done.stdout)
        self.assertIn("    + scaler.unscale_(optimizer)\n    + torch.nn.utils.clip_grad_norm_", done.stdout)

    def test_json_has_the_documented_shape(self):
        faulty, broken = self.write("faulty.py", FAULTY), self.write("broken.py", "def f(:\n")
        done = self.run_lint("--json", faulty, broken, str(self.folder / "absent.py"))
        self.assertEqual(done.returncode, 2)
        report = json.loads(done.stdout)
        self.assertEqual(set(report), {"version", "files", "findings", "errors"})
        self.assertEqual((report["version"], report["files"]), (1, 3))
        (found,) = report["findings"]
        self.assertEqual({k: found[k] for k in ("file", "cell", "line", "column", "rule", "severity", "code")}, {
            "file": faulty, "cell": None, "line": 5, "column": 5, "rule": "clip-before-unscale", "severity": "error",
            "code": CLIP.strip()})
        self.assertEqual(set(found), {"file", "cell", "line", "column", "rule", "severity", "message", "code", "fix"})
        self.assertEqual([error["file"] for error in report["errors"]], [broken, str(self.folder / "absent.py")])

    def test_folders_are_walked_and_rules_left_out(self):
        self.write("a/faulty.py", FAULTY)
        self.write("a/b/clean.py", CLEAN)
        self.write("a/.hidden/faulty.py", FAULTY)
        self.write("a/notes.txt", FAULTY)
        done = self.run_lint("--json", str(self.folder))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["files"], 2)
        done = self.run_lint("--ignore", "clip-before-unscale", str(self.folder))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_wrong_command_line_is_refused(self):
        for arguments in ([], ["--ignore", "no-such-rule", str(self.folder)], ["--nonsense"]):
            with self.subTest(arguments=arguments):
                done = self.run_lint(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn("usage:", done.stderr)

    def test_rules_are_listed(self):
        done = self.run_lint("--rules")
        self.assertEqual(done.returncode, 0)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], list(lint.RULES))

    def test_nothing_heavy_is_imported(self):
        code = "import sys, scalewatch.lint; print([m for m in ('torch', 'numpy', 'scalewatch.pytorch') if m in sys.modules])"
        done = subprocess.run([sys.executable, "-B", "-c", code], cwd=PACKAGE, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.stdout.strip(), "[]", done.stderr)


class Library(unittest.TestCase):
    def rules(self, text):
        return [(f.line, f.rule) for f in lint.check(text)]

    def test_a_line_can_be_excused(self):
        named = FAULTY.replace(CLIP, CLIP + "  # scalewatch: ignore[clip-before-unscale]")
        self.assertEqual(self.rules(named), [])
        self.assertEqual(self.rules(FAULTY.replace(CLIP, CLIP + "  # scalewatch: ignore")), [])
        self.assertEqual(self.rules(FAULTY.replace(CLIP, "    # scalewatch: ignore[clip-before-unscale]\n" + CLIP)), [])
        other = FAULTY.replace(CLIP, CLIP + "  # scalewatch: ignore[late-update, missing-update]")
        self.assertEqual(self.rules(other), [(5, "clip-before-unscale")])
        in_text = FAULTY.replace(CLIP, CLIP + '; note = "# scalewatch: ignore"')
        self.assertEqual(self.rules(in_text), [(5, "clip-before-unscale")])

    def test_a_notebook_is_told_by_cell(self):
        lines = FAULTY.split("\n")
        text = notebook("%matplotlib inline\n!pip install x\n" + "\n".join(lines[:2]), "%%bash\nnot python at all (",
                        "this cell is half (", "# scores\n" + "\n".join(lines[2:]))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "train.ipynb"
            path.write_text(text, encoding="utf-8")
            (found,) = lint.check_file(str(path))
            self.assertEqual((found.cell, found.line, found.rule), (4, 4, "clip-before-unscale"))
            self.assertEqual(found.place, f"{path}:cell 4:4:5")
            excused = text.replace("1.0)", "1.0)  # scalewatch: ignore")
            path.write_text(excused, encoding="utf-8")
            self.assertEqual(lint.check_file(str(path)), [])
            path.write_text("{}", encoding="utf-8")
            self.assertRaises(lint.UnreadableSource, lint.check_file, str(path))

    def test_columns_count_characters(self):
        text = FAULTY.replace("    torch.nn", "    'größe'; torch.nn")
        (found,) = lint.check(text)
        self.assertEqual((found.line, found.column), (5, 14))

    def test_what_is_not_python_is_said(self):
        for text in ("def f(:\n", "x = \0", "(" * 5000 + ")" * 5000, "print 'old'"):
            with self.subTest(text=text[:10]):
                self.assertRaises(lint.UnreadableSource, lint.check, text)

    def test_deep_and_wide_scripts_end(self):
        deep = "x = " + "+".join(["y"] * 3000) + "\n"
        branches = "".join(f"    if c{i}:\n        scaler.unscale_(o{i})\n" for i in range(200))
        wide = FAULTY.replace("    torch.nn", branches + "    torch.nn")
        recursive = "".join(f"def f{i}():\n    f{(i + 1) % 40}(); f{(i + 7) % 40}(); scaler.step(o)\n" for i in range(40))
        for text in (deep, wide, FAULTY + recursive):
            try:
                lint.check(text)
            except lint.UnreadableSource as error:
                self.assertIn("deep", str(error))

    def test_every_finding_names_its_rule(self):
        self.assertTrue(all(name == rule.name and rule.severity in ("error", "warning", "info") for name, rule in lint.RULES.items()))


if __name__ == "__main__":
    unittest.main()
