"""Shows that the suite finds faults: builds each mutant of the kernels and runs the quick checks on it.

A mutant is found when the suite fails on it. This fails when a mutant passes, does not compile, or can't be made because its
text is not exactly once in the source; and when the kernels as they are fail the same checks.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN_INCLUDES = "tests/simt/include/"
TESTS = "Quick*"
CPU_SECONDS = 30  # a mutant that takes more hangs, which is found too


def run_suite(arguments, kernels):
    """Returns what the suite says against these kernels; None when it passes."""
    environment = dict(os.environ, SCALEWATCH_SIMT_KERNELS=str(kernels))
    command = ["/bin/sh", "-c", f'ulimit -t {CPU_SECONDS}; exec "$@"', "sh",
               arguments.suite, "--gtest_filter=" + TESTS, "--gtest_fail_fast", "--gtest_brief=1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"dies of signal {-done.returncode}"
    failed = [line for line in done.stdout.splitlines() if line.startswith("[  FAILED  ]")]
    fault = [line.strip() for line in done.stdout.splitlines() if "scalewatch_" in line and ": block" in line]
    test = failed[0].split()[3] if failed else "no test"
    return test + (": " + fault[0][:150] if fault else "")


def check(arguments, mutant, folder):
    """Returns (found, text) for one mutant."""
    source = ROOT / mutant["file"]
    text = source.read_text(encoding="utf-8")
    count = text.count(mutant["find"])
    if count != 1:
        return False, f"its text is {count} times in {mutant['file']}"
    copy = folder / mutant["file"].removeprefix(OWN_INCLUDES)
    copy.parent.mkdir(parents=True)
    copy.write_text(text.replace(mutant["find"], mutant["replace"]), encoding="utf-8")
    kernels = folder / "kernels.so"
    command = [arguments.compiler, "-shared", "-fPIC", "-w", f"-I{folder}", f"-I{ROOT / OWN_INCLUDES}", f"-I{ROOT}",
               *arguments.flags.split(), str(ROOT / "tests/simt/kernels.cc"), arguments.harness, "-o", str(kernels)]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode != 0:
        return False, "does not compile:\n" + built.stderr[:1500]
    said = run_suite(arguments, kernels)
    return said is not None, said or "NOT FOUND"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", required=True, help="simt_kernel_test")
    parser.add_argument("--kernels", required=True, help="the kernels as they are, built")
    parser.add_argument("--harness", required=True, help="the harness, built")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", required=True, help="of the kernels' compilation")
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    arguments = parser.parse_args()

    said = run_suite(arguments, arguments.kernels)
    if said is not None:
        sys.exit(f"the kernels as they are fail: {said}")
    mutants = tomllib.loads((ROOT / "tests/simt/mutants.toml").read_text(encoding="utf-8"))["mutant"]
    mutants = [mutant for mutant in mutants if arguments.only in mutant["name"]]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="simt_mutants_") as folder, concurrent.futures.ThreadPoolExecutor(
            min(2, os.cpu_count() or 1)) as pool:
        folders = [pathlib.Path(folder) / str(number) for number in range(len(mutants))]
        for mutant, (found, text) in zip(mutants, pool.map(lambda pair: check(arguments, *pair), zip(mutants, folders))):
            print(f"{'found' if found else 'FAILED':6}  {mutant['name']}: {text}", flush=True)
            missed += not found
    print(f"{len(mutants) - missed} of {len(mutants)} mutants found")
    sys.exit(1 if missed or not mutants else 0)


if __name__ == "__main__":
    main()
