"""The Python package with the standard library alone: arrays by hand, streamed to a real server, and what it answers.

With PyTorch it is tested by `tests/run python`, which also installs it with pip."""
import array
import os
import pathlib
import subprocess
import sys

from harness import BIN, ROOT, Case, main, wait_for

sys.path.insert(0, str(ROOT / "client_lib/python"))
os.environ["SCALEWATCH_LIBRARY_DIR"] = str(BIN.parent / "lib")

import scalewatch  # noqa: E402


class Array:
    """What NumPy says of an array, without NumPy."""

    def __init__(self, values, shape=None, strides=None, offset=0):
        self.values = array.array("f", values)
        address, count = self.values.buffer_info()
        self.__array_interface__ = {"version": 3, "typestr": "<f4", "shape": shape or (count,), "strides": strides,
                                    "data": (address + 4 * offset, False)}


class Python(Case):
    maxDiff = None

    def watch(self, server, run, **options):
        watch = scalewatch.Watch(run, server.address, http=server.http, strict=True, **options)
        self.addCleanup(watch.close, 0)
        return watch

    def test_arrays_by_hand(self):
        server = self.server()
        watch = self.watch(server, "by hand", labels={"team": "a"})
        scaler = watch.add_scaler(policy="pytorch", init_scale=1024.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
        watch.add_optimizer("adam", "Adam", scaler, lr=1e-3)
        told = []
        watch.on_finding(lambda finding: told.append(finding.rule))
        nan = float("nan")
        for step in range(1, 41):
            bad = step > 20
            watch.begin(step)
            watch.observe("layer.weight", Array([1.0, -2.0, nan if bad else 4.0, 0.0]), role="gradient", scale=1024.0)
            watch.observe("layer.part", Array(range(12), (2, 3), (24, 8), offset=1), role="parameter")
            watch.set_loss(nan if bad else 1.0 + step % 3)
            watch.observe_scaler(1024.0, 1024.0, step if not bad else 0)
            watch.observe_optimizer(not bad, float(bad))
            watch.end()
            if step % 8 == 0:
                self.assertTrue(watch.wait_durable(20))
        wait_for("a callback", lambda: watch.end() or "NonFiniteLoss" in told)
        self.assertTrue(watch.close(20))
        self.assertTrue(watch.close())
        found = {finding.rule: finding for finding in watch.findings()}
        self.assertEqual((found["NonFiniteLoss"].severity, found["NonFiniteLoss"].first_step), ("critical", 21))
        self.assertTrue(found["NonFiniteLoss"].advice)
        points = watch.history("layer.*", role="gradient", max_points=100)
        self.assertEqual({point.tensor for point in points}, {"layer.weight"})
        self.assertEqual((points[9].max, points[9].min, points[9].zero, points[9].scale, points[-1].nan), (4.0, -2.0, 1, 1024.0, 1))
        part = watch.history("layer.part")[5]
        self.assertEqual((part.numel, part.sum, part.max), (6, 36.0, 11.0))  # 1 3 5 7 9 11
        self.assertEqual(len(scalewatch.table(points)), len(points))
        self.assertEqual(watch.questions.scaler_history()[-1]["last_attempt"], 40)
        page = watch._repr_html_()
        self.assertIn("<svg", page)
        self.assertIn("NonFiniteLoss", page)
        os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        told = watch.whatif(init_scale=2.0 ** 10)
        self.assertEqual((told["attempts"], told["ran"]["policy"]), (40, "pytorch"))
        with self.assertRaisesRegex(scalewatch.ServerError, "whatif"):
            watch.whatif("no such policy")

    def test_wrong_use(self):
        watch = self.watch(self.server(), "wrong use")
        for error, call in ((TypeError, lambda: watch.observe("x", [1.0])),
                            (ValueError, lambda: watch.observe("x", Array([1]), role="weight")),
                            (scalewatch.ScalewatchError, lambda: watch.observe("", Array([1]))),
                            (scalewatch.ScalewatchError, lambda: watch.misuse("Not A Kind"))):
            with self.assertRaises(error):
                call()
        lenient = scalewatch.Watch("lenient", "127.0.0.1:1")
        self.addCleanup(lenient.close, 0)
        with self.assertLogs("scalewatch", "WARNING") as said:
            lenient.observe("x", [1.0])
            lenient.observe("x", [1.0])
        self.assertEqual(len(said.records), 1)
        with self.assertRaises(scalewatch.ServerError):
            lenient.findings()

    def test_tensors_on_a_gpu(self):
        """Against the fake driver: what is handed over by address is what the server holds, and nothing else is read."""
        driver = BIN.parent / "fake_cuda"
        if not (driver / "libcuda.so.1").exists():
            self.skipTest("built without the fake driver")
        server = self.server()
        done = subprocess.run([sys.executable, "-B", str(ROOT / "tests/integration/python_device.py"), server.address],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "client_lib/python"), "LD_LIBRARY_PATH": str(driver),
                                   "SCALEWATCH_FAKE_CUDA_AUTOMATIC": "1"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        told = scalewatch.Questions("device", server.address, server.http)
        points = {point.tensor: point for point in told.attempt(4)}
        self.assertEqual(set(points), {"layer.0", "layer.2", "strided"})
        first = points["layer.0"]
        self.assertEqual((first.scale, first.min, first.max, first.zero, first.pos_inf), (1024.0, -2.0, 1.0, 1, 1))
        self.assertEqual((points["layer.2"].sum, points["strided"].sum), (12.0, 12.0))  # 0 2 4 6
        last = told.scaler_history()[-1]
        self.assertEqual((last["scale_before"], last["scale_after"], last["growth_tracker"]), (1024.0, 1024.0, 5))
        self.assertEqual([int(told.summary()[k]) for k in ("attempts", "skipped")], [4, 4])

    def test_the_end_of_a_script(self):
        """No close, an exception, a fork: the parent's reports come, and nothing is said."""
        server = self.server()
        script = self.folder / "script.py"
        script.write_text(f"""
import os, scalewatch
watch = scalewatch.Watch("ends", {server.address!r})
for step in range(5):
    watch.begin(step)
    watch.set_loss(1.0)
    watch.end()
if os.fork() == 0:
    watch.begin()
    watch.end()
    watch.close()
    os._exit(0)
os.wait()
raise SystemExit(3)
""")
        done = subprocess.run([sys.executable, "-B", str(script)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(pathlib.Path(scalewatch.__file__).parents[1])})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", ""))
        wait_for("the goodbye", lambda: server.api("runs/ends")["run"]["status"] == "RUN_STATUS_FINISHED")
        self.assertEqual(server.api("runs/ends")["run"]["attempts"], "5")


if __name__ == "__main__":
    main()
