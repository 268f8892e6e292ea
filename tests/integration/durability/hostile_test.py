"""Clients that mean harm, or behave as if: what each may cost is bounded, and a healthy client beside them sees nothing of it.

Beside every test a healthy rank reports ten times a second. Its acks must go on, and a NaN of its loss must reach the sink.
"""
import os
import pathlib
import re
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import Case, get, main, wait_for
from reflection import Client, grpc
from session import Session

# Limits that a test can reach in seconds. What they bound is the same at their defaults.
SETTINGS = ("engine.max_runs=50", "limits.max_tensors=5000", "limits.max_message=1MiB", "engine.total_queue=32MiB", "grpc.memory=64MiB",
            "metrics.max_runs=10", "alerting.flap_times=0", "rules.event_resolve=10")
ACK_WITHIN = 20  # seconds, of 0.1 on a quiet machine
MEMORY_MIB = 350


class Healthy(threading.Thread):
    """Ten attempts a second; notes how long each ack took."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.session = Session(client).open("healthy")
        self.over = threading.Event()
        self.waits = []
        self.error = None
        self.bad = threading.Event()
        self.start()

    def run(self):
        seq = 0
        try:
            while not self.over.is_set():
                seq += 1
                bad = self.bad.is_set()
                self.bad.clear()
                begin = time.monotonic()
                self.session.send(self.session.report(seq, loss=float("nan") if bad else 1.0))
                if not self.session.wait("ack", lambda s: s.durable() >= seq):
                    raise AssertionError(f"the healthy client was ended: {self.session.status}")
                self.waits.append(time.monotonic() - begin)
                self.over.wait(max(0, 0.1 - self.waits[-1]))
        except AssertionError as error:
            self.error = error


class Hostile(Case):
    def setUp(self):
        super().setUp()
        self.sink_ = self.sink()
        self.server_ = self.server(sinks=[{"name": "hook", "type": "webhook", "url": self.sink_.url, "min_severity": "info"}], settings=SETTINGS)
        self.client = Client(self.server_.address)
        self.addCleanup(self.client.close)
        self.own = Client(self.server_.address)
        self.addCleanup(self.own.close)
        self.healthy = Healthy(self.own)

    def tearDown(self):
        """The healthy one goes on after the harm, and saw none while it lasted."""
        acks = len(self.healthy.waits)
        self.healthy.bad.set()
        wait_for("the alert of the healthy run", lambda: [b for b in self.sink_.bodies()
                                                          if b["rule"] == "NonFiniteLoss" and b["run"] == "healthy"])
        wait_for("its acks to go on", lambda: self.healthy.error or len(self.healthy.waits) > acks + 5)
        self.healthy.over.set()
        self.healthy.join(60)
        self.assertIsNone(self.healthy.error)
        self.assertLess(max(self.healthy.waits), ACK_WITHIN)
        self.assertEqual(get(self.server_.http + "/readyz"), "ready\n")
        resident = self.memory()
        self.assertLess(resident, MEMORY_MIB)
        run = wait_for("the healthy run", lambda: self.server_.api("runs/healthy")["run"])
        self.assertEqual(run["lost_reports"], "0")
        self.assertEqual(self.server_.stop(), 0)

    def memory(self):
        with open(f"/proc/{self.server_.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) / 1024

    def session(self):
        return Session(self.client)

    def open_descriptors(self):
        return len(os.listdir(f"/proc/{self.server_.process.pid}/fd"))

    def test_half_open(self):
        """Sockets that say nothing, cut HTTP/2 in the middle, or open a stream and never a Hello; all are let go."""
        before = self.open_descriptors()
        sockets = []
        port = self.server_.grpc_port
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        settings = struct.pack(">I", 0)[1:] + b"\x04\x00" + struct.pack(">I", 0)
        for i in range(200):
            s = socket.create_connection(("127.0.0.1", port))
            s.sendall((b"", preface[:10], preface + settings, preface + settings + os.urandom(64), b"GET / HTTP/1.1\r\n\r\n")[i % 5])
            sockets.append(s)
        streams = [self.session() for _ in range(200)]  # no Hello at all
        for s in streams[:100]:
            s.send(s.hello("half", rank=0))  # a Hello each, and nothing after: the newest has the rank
        time.sleep(2)
        for s in sockets:
            s.close()
        for s in streams:
            s.cut()
        wait_for("descriptors to be given back", lambda: self.open_descriptors() < before + 20)

    def test_slow_readers(self):
        """A client that makes the server talk and takes nothing is ended once 1,024 messages wait, or costs no more than those."""
        slow = [self.session().open(f"slow-{i}") for i in range(4)]
        for s in slow:
            s.read_no_more()
            for seq in range(1, 5000):
                s.send(s.report(seq, ids=(7,), attempt=seq))  # each is refused, and each refusal is a message
        wait_for("refusals", lambda: self.refused() >= 4 * 1024)
        for s in slow:
            s.cut()

    def refused(self):
        return float(re.search(r"^scalewatch_ingest_reports_rejected_total ([0-9.e+]+)$", get(self.server_.http + "/metrics"), re.MULTILINE).group(1))

    def test_a_flood_of_runs(self):
        """Names beyond engine.max_runs are refused in words; runs that are known go on."""
        codes = []
        for i in range(120):
            s = self.session()
            s.send(s.hello(f"flood-{i}"))
            s.wait("an answer", lambda s: s.answers)
            codes.append(s.status)
            if s.answers:
                self.assertTrue(s.answers[0].HasField("hello_ack"))
                s.cut()
            else:  # no fault: it may come again
                code, details = s.ended()
                self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)
                self.assertIn("50 runs", details)
                break
        else:
            self.fail("120 runs were taken")
        self.assertEqual(i, 49)  # the healthy one is the 50th

    def test_a_flood_of_tensors_and_names(self):
        """Tables at the limit from many ranks, names of 512 bytes; beyond it each is ended."""
        for i in range(10):
            s = self.session().open("tensors", names=(), rank=i, world_size=10)
            for version in range(5):
                s.send(s.table((f"{'n' * 490}{version}.{n}" for n in range(1000)), version * 1000, version + 1))
            s.send(s.report(1, ids=(0, 4999)))
            self.assertTrue(s.wait("ack", lambda s: s.durable() == 1), s.status)
            s.send(s.table(["one.more"], 5000, 6))
            self.assertEqual(s.ended()[0], grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_huge_reports(self):
        """Messages at the limit, as fast as they go, from a few streams at once; beyond it the stream ends."""
        streams = [self.session().open(f"huge-{i}", names=[f"w{n}" for n in range(5000)]) for i in range(3)]
        for seq in range(1, 31):
            for s in streams:
                s.send(s.report(seq, ids=range(5000)))
        for s in streams:
            self.assertTrue(s.wait("acks", lambda s: s.durable() == 30), s.status)
            s.send(b"\x1a" + b"\xff\xff\x7f" + bytes(3 << 20))
            self.assertEqual(s.ended()[0], grpc.StatusCode.RESOURCE_EXHAUSTED)
        many = self.session().open("many")
        report = many.report(1)
        for i in range(20_000):
            report.report.scalers.add(scaler=i)
            report.report.misuse.add(kind="k" * 20, detail="d" * 20)
        many.send(report)
        many.wait("an answer", lambda s: s.durable() == 1 or s.faults() or s.status)
        many.cut()

    def test_nonsense(self):
        """Ids out of range, columns of wrong lengths, numbers that can't be, text that is none: refused by name, or harmless."""
        nan, inf = float("nan"), float("inf")
        changes = [
            lambda r: r.blocks[0].ids.extend([1, 2, 3]),
            lambda r: setattr(r.blocks[0], "first_id", 2**32 - 1) or r.blocks[0].ClearField("ids"),
            lambda r: setattr(r.blocks[0], "count", 2**32 - 1),
            lambda r: setattr(r.blocks[0], "count", 2**32 - 1) or r.blocks[0].ClearField("ids"),
            lambda r: r.blocks[0].numel.extend([2**64 - 1]),
            lambda r: r.blocks[0].zero.extend([2**64 - 1]),
            lambda r: r.blocks[0].nan.add(index=2**32 - 1, count=1),
            lambda r: r.blocks[0].nan.add(index=0, count=2**64 - 1),
            lambda r: r.blocks[0].nan.add(index=0, count=0),
            lambda r: [r.blocks[0].over.add(index=0, count=1) for _ in range(5)],
            lambda r: r.blocks[0].exponents.add(index=0, first_exponent=-2**31, counts=[1] * 10),
            lambda r: r.blocks[0].exponents.add(index=0, first_exponent=127, counts=[1] * 1000),
            lambda r: r.blocks[0].exponents.add(index=9, first_exponent=0, counts=[2**64 - 1] * 2),
            lambda r: r.blocks[0].first_bad_micro.add(index=7, micro=2**32 - 1),
            lambda r: setattr(r.blocks[0], "role", 99),
            lambda r: setattr(r.blocks[0], "target", -5),
            lambda r: setattr(r.blocks[0], "micro_batches", 2**32 - 1),
            lambda r: setattr(r.blocks[0], "measured_under_scale", nan),
            lambda r: setattr(r.blocks[0], "measured_under_scale", -inf),
            lambda r: r.blocks[0].min.__setitem__(0, inf),
            lambda r: r.blocks[0].sum.__setitem__(0, nan),
            lambda r: setattr(r.scalers[0], "scaler", 2**32 - 1),
            lambda r: setattr(r.scalers[0], "scale_after", nan),
            lambda r: setattr(r.scalers[0], "scale_before", -inf),
            lambda r: setattr(r.scalers[0], "growth_tracker", 2**64 - 1),
            lambda r: setattr(r.scalers[0].optimizers[0], "optimizer", 2**32 - 1),
            lambda r: setattr(r.scalers[0].optimizers[0], "outcome", 77),
            lambda r: setattr(r.scalers[0].optimizers[0], "found_inf_decided", nan),
            lambda r: setattr(r, "step", -2**63),
            lambda r: setattr(r, "time_ms", -2**63),
            lambda r: setattr(r, "lr", -inf),
            lambda r: setattr(r, "grad_norm", nan),
            lambda r: setattr(r, "phase", 12),
            lambda r: setattr(r, "statistics_lost", 12),
            lambda r: r.misuse.add(kind="\n\n", detail="x" * 100_000),
            lambda r: r.from_log.scalers.add(name="x", policy="nonsense"),
            lambda r: r.from_log.tensors.add(name="\x07"),
            lambda r: setattr(r.from_log, "applied_before", 2**64 - 1),
            lambda r: setattr(r.client, "reports_dropped", 2**64 - 1),
            lambda r: r.client.device_faults.add(device=-2**31, cause=99, detail="\x1b[2J" * 5000),
            lambda r: setattr(r, "retrospective", True) or setattr(r, "attempt", 2**63),
            lambda r: setattr(r, "attempt", 0),
        ]
        s = self.session().open("nonsense")
        refused = 0
        for number, change in enumerate(changes, start=1):
            message = s.report(number, attempt=1000 + number)
            change(message.report)
            s.send(message)
            self.assertTrue(s.wait("word of it", lambda s, n=number: s.durable() >= n), (number, s.status))
        refused = len(s.faults())
        self.assertGreater(refused, 10)
        for fault in s.faults():
            self.assertEqual(fault.cause, 4)  # BAD_REPORT
            self.assertTrue(fault.message.isprintable(), fault.message)
            self.assertLess(len(fault.message), 1000)
        s.send(s.goodbye(len(changes)))
        self.assertEqual(s.ended()[0], grpc.StatusCode.OK)
        for path in ("runs/nonsense", "runs"):  # and it can be looked at
            self.server_.api(path)
        get(self.server_.http + "/metrics")
        self.server_.cli("show", "nonsense")
        self.server_.cli("export", "nonsense", "--format", "jsonl", "--what", "tensors")
        # Hellos that can't be true.
        for fields, words in ((dict(rank=5), "rank"), (dict(world_size=2**32 - 1, rank=2**32 - 2), "world_size"), (dict(compute_dtype=99), "dtype"),
                              (dict(host="\x00"), "host"), (dict(protocol_version=0), "protocol_version")):
            s = self.session()
            s.send(s.hello("nonsense", **fields))
            code, details = s.ended()
            self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, fields)
            self.assertIn(words, details)
        # Losses that can't be true: one without end only silences its own rank.
        s = self.session().open("nonsense", start_time_ms=1)
        loss = s.new()
        loss.loss.first_seq, loss.loss.last_seq, loss.loss.cause = 1, 2**64 - 1, 99
        s.send(loss)
        s.send(s.report(1))
        s.wait("ack", lambda s: s.durable() > 0)
        s.cut()


if __name__ == "__main__":
    main()
