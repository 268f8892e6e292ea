"""The wheel beside PyTorch, protobuf, grpcio and onnx in one process, whichever comes first; and that it needs nothing else."""
import json
import os
import subprocess
import sys
import unittest

from common import Lab

OTHERS = ("torch", "google.protobuf.message", "grpc", "onnx")

PROGRAM = """
import importlib, json, sys
order, where = json.loads(sys.argv[1])
for name in order:
    importlib.import_module(name)
    if name == "scalewatch":
        sys.modules[name].version()  # opens the library
import grpc, onnx, scalewatch, torch
from onnx import helper
model = torch.nn.Linear(8, 4)
optimizer, scaler = torch.optim.Adam(model.parameters()), torch.amp.GradScaler("cpu", init_scale=1024.0)
watch = scalewatch.attach(model, optimizer, scaler, **where)
channel = grpc.insecure_channel(where["server"])
grpc.channel_ready_future(channel).result(timeout=30)  # both gRPCs talk to one server
for step in range(20):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(torch.ones(2, 8)).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 8 == 0:
        watch.wait_durable(20)
assert watch.close(20)
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, [1])],
                          [helper.make_tensor_value_info("y", 1, [1])])
onnx.checker.check_model(onnx.load_from_string(helper.make_model(graph, ir_version=8,
                                                                 opset_imports=[helper.make_opsetid("", 13)]).SerializeToString()))
channel.close()
print(int(watch.questions.summary()["attempts"]), watch.findings())
"""


class Packages(Lab):
    def test_each_order(self):
        names = ("scalewatch", *OTHERS)
        # Each comes first once, and each comes before and after scalewatch.
        orders = [names[i:] + names[:i] for i in range(len(names))] + [tuple(reversed(names))]
        self.assertTrue(all(any(o.index("scalewatch") < o.index(n) for o in orders) and any(o.index("scalewatch") > o.index(n) for o in orders)
                            for n in OTHERS))
        for number, order in enumerate(orders):
            with self.subTest(" ".join(order)):
                done = subprocess.run([sys.executable, "-c", PROGRAM, json.dumps([order, self.where(run=f"order-{number}")])],
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180,
                                      env={**os.environ, "GRPC_VERBOSITY": "ERROR"})
                self.assertEqual((done.returncode, done.stdout), (0, "20 []\n"), done.stderr)
                self.assertEqual(done.stderr, "")

    def test_the_wheel_is_self_contained(self):
        """All that the package loads is its own or the C library's: a machine without gRPC would do."""
        code = ("import os, scalewatch; scalewatch.version(); print(os.path.dirname(scalewatch.__path__[0]));"
                "print(*sorted({line.split()[-1] for line in open('/proc/self/maps') if '.so' in line}), sep='\\n')")
        environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=environment)
        home, *loaded = done.stdout.splitlines()
        own = [path for path in loaded if path.startswith(home)]
        self.assertTrue([path for path in own if "scalewatch.libs/libgrpc" in path], own)
        foreign = {path.rpartition("/")[2].split(".so")[0] for path in loaded if path not in own and "lib-dynload" not in path}
        code = ("import ctypes, shutil, ssl, urllib.request, uuid;"
                "print(*[line.split()[-1] for line in open('/proc/self/maps') if '.so' in line])")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=environment)
        python = {path.rpartition("/")[2].split(".so")[0] for path in done.stdout.split()}
        self.assertLessEqual(foreign - python, {"libc", "libm", "libgcc_s", "libstdc++", "libz", "libdl", "libpthread", "librt"})

    def test_importing_costs_nothing_else(self):
        """`import scalewatch` needs neither PyTorch nor NumPy, and asks for neither."""
        code = "import sys, scalewatch; print(scalewatch.version(), sorted({'torch', 'numpy', 'pandas', 'grpc'} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(done.stdout, "0.1.0 []\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
