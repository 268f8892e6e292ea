"""A C++ trainer on the libtorch of the PyTorch wheel, with Scalewatch's client and its LossScaler: client_lib/example/libtorch."""
import os
import pathlib
import subprocess
import unittest

import torch

import scalewatch
from common import Lab, ROOT, harness


class Libtorch(Lab):
    def build(self):
        """Against the client as it is installed for a C++ trainer, in folders of its own."""
        prefix, folder = pathlib.Path(self._folder) / "prefix", pathlib.Path(self._folder) / "example"
        client = os.environ.get("SCALEWATCH_CLIENT_BUILD", str(harness.BIN.parent))
        install = ["cmake", "--install", client, "--prefix", str(prefix), "--component"]
        commands = ([*install, "client"], [*install, "client-dev"],
                    ["cmake", "-S", str(ROOT / "client_lib/example/libtorch"), "-B", str(folder), "-G", "Ninja",
                     f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path};{prefix}",
                     f"-DTORCH_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"], ["cmake", "--build", str(folder)])
        for command in commands:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return folder / "libtorch_trainer"

    def test_a_trainer(self):
        program = self.build()
        # A program of its own finds NVIDIA's libraries where Python would have loaded them from.
        nvidia = (pathlib.Path(torch.__file__).parents[1] / "nvidia").glob("*/lib")
        environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, nvidia)), "SCALEWATCH_SERVER": self.server.address}
        for run, rate, bad in (("libtorch", "0.1", False), ("libtorch-too-fast", "1e6", True)):
            done = subprocess.run([str(program), run, rate], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                                  env=environment)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            told = scalewatch.Questions(run, self.server.address, self.server.http)
            found = [f for f in told.findings() if f.severity != "info"]
            self.assertEqual(int(told.summary()["attempts"]), 100)
            self.assertEqual(any(f.severity == "critical" for f in found), bad, found)


if __name__ == "__main__":
    unittest.main(verbosity=2)
