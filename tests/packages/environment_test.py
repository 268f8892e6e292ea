"""A trainer that is told everything by its environment, as deploy/jobs does it: the script names neither server nor run."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
from harness import BIN, Case, main, wait_for  # noqa: E402

TRAINER = """
import scalewatch
with scalewatch.Watch(compute_dtype="float32") as watch:
    for step in range(5):
        watch.begin(step)
        watch.set_loss(1.0 / (step + 1))
        watch.end()
"""


class Environment(Case):
    def train(self, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SCALEWATCH_")}
        return subprocess.run([sys.executable, "-B", "-c", TRAINER], capture_output=True, text=True, timeout=60, env={
            **clean, "PYTHONPATH": str(ROOT / "client_lib/python"), "SCALEWATCH_LIBRARY_DIR": str(BIN.parent / "lib"), **environment})

    def test_run_and_server(self):
        server = self.server()
        done = self.train(SCALEWATCH_SERVER=server.address, SCALEWATCH_RUN="by-environment")
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_for("its attempts", lambda: int(server.api("runs/by-environment")["run"]["attempts"]) == 5)

    def test_no_name_is_a_mistake_to_see_at_once(self):
        done = self.train(SCALEWATCH_SERVER="127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("$SCALEWATCH_RUN", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    main()
