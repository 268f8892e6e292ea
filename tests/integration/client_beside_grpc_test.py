"""The client library in processes that hold another gRPC and another Protobuf as well, loaded before and after it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from harness import BIN, ROOT, SKIPPED, main, need_grpc

HERE = pathlib.Path(__file__).parent
LIBRARY = BIN.parent / "lib/libscalewatch.so.0"
GRPC = "1.64.1"  # with Protobuf 5.27 for Python and, inside grpcio-tools, 26 for C++; Debian's are 1.51.1 and 3.21.12
REPORTS = 50


def wheels():
    """A Python whose gRPC and Protobuf are PyPI's; made once and kept in build/tools."""
    folder = ROOT / f"build/tools/grpcio-{GRPC}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for command in ([sys.executable, "-m", "venv", folder],
                        [folder / "bin/pip", "install", "--quiet", f"grpcio=={GRPC}", f"grpcio-tools=={GRPC}", "protobuf==5.27.2"]):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            if done.returncode != 0:
                print(f"SKIPPED: {' '.join(map(str, command))}: {done.stderr[-500:]}", flush=True)
                sys.exit(SKIPPED)
        (folder / "complete").touch()
    return folder / "bin/python"


class BesideGrpc(unittest.TestCase):
    def run_both(self, python, order, mode):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SCALEWATCH", "GRPC"))}
        done = subprocess.run([str(python), "-B", str(HERE / "client_beside_grpc.py"), order, mode, str(LIBRARY), str(ROOT / "proto")],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))  # nor does either library complain
        told = json.loads(done.stdout.splitlines()[-1])
        every = [float(i) for i in range(REPORTS)]
        self.assertEqual(told["losses"], {"client": every, "python": every})
        self.assertEqual(told["answers"], REPORTS + 1)
        return told

    def test_wheels_of_another_version(self):
        python = wheels()
        for order in ("client first", "grpc first"):
            for mode in ("local", "global"):
                with self.subTest(order=order, mode=mode):
                    told = self.run_both(python, order, mode)
                    self.assertEqual(told["grpc"], GRPC)
                    held = " ".join(told["all"])
                    # Both are there: gRPC twice, and Protobuf's C++ inside the wheel's protoc, which made the messages.
                    for part in ("libgrpc++.so.1.51", "cygrpc.cpython", "_protoc_compiler.cpython", "_message.abi3"):
                        self.assertIn(part, held)
                    self.assertNotIn("libprotobuf", held)

    def test_debians_own(self):
        """Python's gRPC and the client share Debian's libgrpc here, and Protobuf is Python's affair."""
        need_grpc()
        for order in ("client first", "grpc first"):
            with self.subTest(order=order):
                told = self.run_both("/usr/bin/python3", order, "global")
                self.assertIn("libprotobuf", " ".join(told["all"]))
                self.assertIn("libscalewatch.so", " ".join(told["came_with_client"]))
                self.assertNotIn("libprotobuf", " ".join(told["came_with_client"]))


if __name__ == "__main__":
    main()
