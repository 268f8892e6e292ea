"""A Watch by hand, questions and commands: what is inferred, and what is said when something is wrong."""
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy
import torch

import scalewatch
from common import Lab
from scalewatch import arrays


class Hand(Lab):
    def watch(self, **options):
        watch = scalewatch.Watch(**self.where(**options))
        self.addCleanup(watch.close, 0)
        return watch

    def test_what_the_computation_runs_in(self):
        """Nobody is told that a scaler is missing who computes in fp32 or bf16; who computes in fp16 is."""
        cases = {"float32": (numpy.float32, "DTYPE_FP32"), "float16": (numpy.float16, "DTYPE_FP16"), "nothing": (None, "DTYPE_FP32"),
                 "bfloat16": (torch.bfloat16, "DTYPE_BF16")}
        for name, (dtype, expected) in cases.items():
            with self.subTest(name):
                watch = self.watch(run=f"inferred-{name}")
                watch.set_phase("train")
                for step in range(5, 9):
                    watch.begin(step)
                    watch.set_loss(1.0)
                    watch.set_lr(0.1)
                    if dtype is not None:
                        ones = torch.ones(8, dtype=dtype) if isinstance(dtype, torch.dtype) else numpy.ones(8, dtype)
                        watch.observe("layer", ones, role="gradient")
                    watch.end()
                rules = {f.rule for f in self.findings(watch) if f.severity != "info"}
                self.assertEqual("MissingScaler" in rules, name == "float16", rules)
                run = watch.questions.summary()
                self.assertEqual((run["compute_dtype"], int(run["attempts"]), int(run["last_step"]), run["loss"]), (expected, 4, 8, 1.0))
        watch = self.watch(run="inferred-scaler")
        watch.observe_optimizer(True, 0.0, watch.add_optimizer("sgd", "SGD", watch.add_scaler(init_scale=8.0)))
        watch.end()
        self.findings(watch)
        self.assertEqual(watch.questions.summary()["compute_dtype"], "DTYPE_FP16")

    def test_the_first_attempt_keeps_what_is_declared_in_it(self):
        watch = self.watch()
        for name in range(300):
            watch.observe(f"tensor.{name}", numpy.ones(4, numpy.float32))
        watch.end()
        self.findings(watch)
        self.assertEqual(len(watch.questions.attempt(1)), 300)
        self.assertEqual(watch.stats(), {})

    def test_wrong_arguments_are_said_once_and_the_run_goes_on(self):
        watch = self.watch(strict=False)
        with self.assertLogs("scalewatch", "WARNING") as said:
            for _ in range(3):
                watch.observe("x", [1.0])
                watch.observe("x", numpy.ones(2, numpy.float32), role="gradeint")
                watch.set_loss("high")
                watch.observe("good", numpy.ones(2, numpy.float32))
                watch.set_phase("sleep")
                watch.end()
        self.assertEqual(len(said.output), 4, said.output)
        self.assertRegex(said.output[0], "attempt 0 is told without what failed here: TypeError: list has no __dlpack__")
        self.assertRegex(said.output[1], "role 'gradeint': one of gradient, parameter")
        self.assertNotIn("no further", " ".join(said.output))
        with self.assertLogs("scalewatch", "WARNING") as said:
            for number in range(30):
                watch.set_loss(f"loss {number}")
        self.assertEqual(len(said.output), 6)  # ten in all
        self.assertIn("other errors of this run are not logged", said.output[-1])
        self.findings(watch)
        self.assertEqual(int(watch.questions.summary()["attempts"]), 3)
        self.assertEqual([p.tensor for p in watch.questions.attempt(3)], ["good"])

    def test_a_name_is_of_one_type(self):
        """What was declared is what is read: memory of another type is refused."""
        watch = self.watch(strict=False)
        with self.assertLogs("scalewatch", "WARNING") as said:
            for kind in (numpy.float32, numpy.float16, numpy.float32):
                watch.observe("x", numpy.ones(5000, kind))
                watch.end()
        self.assertRegex(said.output[0], "x: elements of float16 where there were those of float32")
        self.findings(watch)
        self.assertEqual([(p.first_attempt, p.absmax, p.nan) for p in watch.history("x")], [(1, 1, 0), (3, 1, 0)])

    def test_where_a_cuda_array_lies(self):
        """What is read of __cuda_array_interface__ without touching its memory: address, strides, device and stream."""
        class Array:
            def __init__(self, **told):
                self.__cuda_array_interface__ = {"typestr": "<f2", "shape": (3, 4), "data": (4096, False), "version": 3, **told}

        class OnThird(Array):
            def __dlpack_device__(self):
                return 2, 3

        plain = arrays.view(Array())
        self.assertEqual((plain.address, plain.sizes, plain.strides, plain.device, plain.stream, plain.contiguous, plain.numel),
                         (4096, (3, 4), (4, 1), 0, 0, True, 12))
        other = arrays.view(OnThird(strides=(2, 6), stream=7))
        self.assertEqual((other.strides, other.device, other.stream, other.contiguous), ((1, 3), 3, 7, False))
        for stream, expected in ((None, 0), (1, 0), (2, 2)):
            self.assertEqual(arrays.view(Array(stream=stream)).stream, expected)
        for wrong, error in (({"typestr": "<i4"}, TypeError), ({"strides": (3, 1)}, ValueError)):
            with self.assertRaises(error):
                arrays.view(Array(**wrong))

    def test_histograms_on_a_cadence(self):
        for every, octaves in ((1, True), (0, False)):
            watch = self.watch(run=f"histograms-{every}", histogram_every=every)
            for _ in range(5):  # room for those of tensors that were declared within the first attempt comes later
                watch.observe("layer", numpy.array([1.0, 2.0, 2.5], numpy.float32), role="gradient")
                watch.end()
                self.assertTrue(watch.wait_durable(20))
            self.findings(watch)
            told = json.dumps(watch.questions.get("/attempts/5", octaves="true"))
            self.assertEqual("octaves" in told, octaves, told)

    def test_errors_of_the_server_are_sentences(self):
        told = scalewatch.Questions("no such run", self.server.address, self.server.http)
        with self.assertRaises(scalewatch.ServerError) as caught:
            told.findings()
        self.assertRegex(str(caught.exception), r"^the server at http://127\.0\.0\.1:\d+ refused: [^{}]*no such run[^{}]*$")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            nobody = f"127.0.0.1:{probe.getsockname()[1]}"
        with self.assertRaisesRegex(scalewatch.ServerError, rf"no answer .* http://{nobody}: .*refused: http= or \$SCALEWATCH_HTTP"):
            scalewatch.Questions("r", http=nobody).findings()

        class Other(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        other = HTTPServer(("127.0.0.1", 0), Other)
        threading.Thread(target=other.serve_forever, daemon=True).start()
        told = scalewatch.Questions("r", http=f"127.0.0.1:{other.server_port}")
        try:
            for text in (b"<html>", b"[]", b"null", b'"x"', b'{"findings": 3, "run": 3, "tensors": [3]}', b'{"findings": [{}], "points": [3]}'):
                for ask in (told.findings, told.summary, told.tensors, told.history, told.scaler_history, told.attempt):
                    with self.subTest(text=text, ask=ask.__name__):
                        try:
                            self.assertEqual(list(ask()), [])  # an object without what is asked for
                        except scalewatch.ServerError as error:
                            self.assertIn("not as a Scalewatch server does", str(error))
        finally:
            other.shutdown()
            other.server_close()

    def test_where_questions_go(self):
        from scalewatch.answers import http_address
        before = {name: os.environ.pop(name, None) for name in ("SCALEWATCH_SERVER", "SCALEWATCH_HTTP")}
        self.addCleanup(os.environ.update, {name: value for name, value in before.items() if value is not None})
        self.addCleanup(lambda: [os.environ.pop(name, None) for name in before])
        self.assertEqual(http_address(None, None), "http://127.0.0.1:9464")
        self.assertEqual(http_address("box", None), "http://box:9464")
        os.environ["SCALEWATCH_SERVER"] = "[fd00::1]:7000"
        self.assertEqual(http_address(None, None), "http://[fd00::1]:9464")
        os.environ["SCALEWATCH_HTTP"] = "10.0.0.2:80"
        self.assertEqual(http_address(None, None), "http://10.0.0.2:80")
        self.assertEqual(http_address(None, "https://x/"), "https://x")

    def test_the_command(self):
        def run(*arguments):
            return subprocess.run([sys.executable, "-m", "scalewatch", *arguments], capture_output=True, text=True, timeout=60)

        page = run()
        self.assertEqual((page.returncode, page.stderr), (0, ""))
        for word in ("lint", "`scalewatch` command", "SCALEWATCH_HTTP"):
            self.assertIn(word, page.stdout)
        self.assertEqual((run("doctor").returncode, run("lint", "--rules").returncode), (2, 0))
        self.assertEqual(run("lint", "--rules").stdout,
                         subprocess.run([sys.executable, "-m", "scalewatch.lint", "--rules"], capture_output=True, text=True).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
