"""Hostile or broken clients over raw gRPC: each gets a clear error or is bounded and counted, and nobody else notices."""
import os
import re

from harness import Case, get, main, wait_for
from reflection import Client, grpc
from session import Session


class BadInput(Case):
    def setUp(self):
        super().setUp()
        self.scalewatchd = self.server()
        self.client = Client(self.scalewatchd.address)
        self.addCleanup(self.client.close)
        # Another run that must not notice anything.
        self.bystander = self.spawn(self.demo_command(self.scalewatchd, "healthy", "--run", "bystander", "--steps", "150"))

    def tearDown(self):
        self.assertEqual(self.bystander.wait(120), 0)
        run = wait_for("the bystander's end", lambda: (r := self.scalewatchd.api("runs/bystander")["run"])
                       and r["status"] == "RUN_STATUS_FINISHED" and r)
        self.assertEqual((int(run["applied"]), int(run["lost_reports"])), (150, 0))
        self.assertEqual(get(self.scalewatchd.http + "/readyz"), "ready\n")
        self.assertEqual(self.scalewatchd.stop(), 0)

    def session(self):
        return Session(self.client)

    def metric(self, name):
        match = re.search(rf"^{name} ([0-9.e+]+)$", get(self.scalewatchd.http + "/metrics"), re.MULTILINE)
        self.assertIsNotNone(match, name)
        return float(match.group(1))

    def test_reports_that_do_not_fit_cost_only_themselves(self):
        s = self.session().open(names=("a", "b"))
        cases = [
            (dict(ids=(0, 7)), "7"),                        # unknown tensor id
            (dict(ids=(0, 1), max=[1.0]), "max"),           # wrong column length
            (dict(ids=(0, 1), zero=[1]), "zero"),           # neither empty nor full
            (dict(ids=(1, 0)), "ids"),                      # not rising
            (dict(ids=(0, 1), nan=[(2, 1)]), "nan"),        # beyond the block
            (dict(ids=(), attempt=1 << 60), "attempt"),
        ]
        seq = 0
        for fields, words in cases:
            seq += 1
            s.send(s.report(seq, **fields))
            fault = s.wait("fault", lambda s, n=seq: next((f for f in s.faults() if f.seq == n), None))
            self.assertIsNotNone(fault, (fields, s.status))
            self.assertEqual(fault.cause, 4, fault)  # BAD_REPORT
            self.assertIn(words, fault.message)
        s.send(s.report(seq + 1, attempt=1))  # and the stream goes on
        self.assertTrue(s.wait("ack", lambda s: s.durable() == seq + 1))
        s.finish()
        def counted():
            run = self.scalewatchd.api("runs/raw")["run"]
            return int(run["attempts"]), int(run["lost_reports"])

        wait_for("one attempt and the losses", lambda: counted() == (1, len(cases)))  # a run's overview may lag by 100 ms
        self.assertEqual(self.metric("scalewatch_ingest_reports_rejected_total"), len(cases))

    def test_gap_and_repeat(self):
        s = self.session().open()
        s.send(s.report(1))
        s.send(s.report(2))
        s.send(s.report(1))  # a repeat is dropped in silence
        s.send(s.report(2))
        s.send(s.report(3))
        self.assertTrue(s.wait("ack", lambda s: s.durable() == 3))
        s.send(s.report(5))
        code, details = s.ended()
        self.assertEqual(code, grpc.StatusCode.OUT_OF_RANGE)
        self.assertRegex(details, "5.*3")
        wait_for("three attempts", lambda: int(self.scalewatchd.api("runs/raw")["run"]["attempts"]) == 3)

    def test_a_gap_that_is_announced_is_counted(self):
        s = self.session().open()
        s.send(s.report(1))
        loss = s.new()
        loss.loss.first_seq, loss.loss.last_seq, loss.loss.cause = 2, 4, 1
        s.send(loss)
        s.send(s.report(5))
        self.assertTrue(s.wait("ack", lambda s: s.durable() == 5))
        s.finish()
        wait_for("three losses", lambda: int(self.scalewatchd.api("runs/raw")["run"]["lost_reports"]) == 3)

    def test_a_newer_incarnation_fences_the_older(self):
        old = self.session().open()
        old.send(old.report(1))
        self.assertTrue(old.wait("ack", lambda s: s.durable() == 1))
        new = self.session().open()
        code, details = old.ended()
        self.assertEqual(code, grpc.StatusCode.ABORTED)
        self.assertEqual(old.faults()[-1].cause, 1)  # FENCED
        self.assertTrue(details)
        # The older one may not come back.
        again = self.session()
        again.send(again.hello(incarnation_order=1))
        self.assertEqual(again.ended()[0], grpc.StatusCode.ABORTED)
        new.send(new.report(1, attempt=2))
        self.assertTrue(new.wait("ack", lambda s: s.durable() == 1))
        new.finish()

    def test_a_frame_of_100_megabytes(self):
        s = self.session().open()
        s.send(b"\x1a" + b"\xff\xff\xff\x7f" + os.urandom(1 << 20) * 100)
        code, details = s.ended()
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED, details)
        # Bytes of the right size that are no message.
        s = self.session().open()
        s.send(b"\x1a\xff\xff\x7f" + b"\xff" * 1000)
        code, details = s.ended()
        self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, details)

    def test_a_million_tensors_and_one_more(self):
        s = self.session().open(names=())
        ack = next(a.hello_ack for a in s.answers if a.HasField("hello_ack"))
        limit = ack.limits.max_tensors
        self.assertEqual(limit, 1_000_000)
        step = 100_000
        for version, first in enumerate(range(0, limit, step), start=1):
            s.send(s.table((f"layer{i}.weight" for i in range(first, first + step)), first, version))
        s.send(s.report(1, ids=(0, limit - 1)))
        self.assertTrue(s.wait("ack", lambda s: s.durable() == 1), s.status)
        s.send(s.table(["one.too.many"], limit, limit // step + 1))
        code, details = s.ended()
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED, details)
        self.assertIn("1000000", details.replace(",", ""))
        with open(f"/proc/{self.scalewatchd.process.pid}/status", encoding="ascii") as status:
            resident = int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1))
        self.assertLess(resident, 2 << 20, "more than 2 GiB for a million tensors")

    def test_names(self):
        for bad, words in (("line\nbreak", "control"), ("tab\t", "control"), ("", "empty"), ("x" * 513, "512")):
            s = self.session().open()
            s.send(s.table([bad], 1, 2))
            code, details = s.ended()
            self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, repr(bad))
            self.assertIn(words, details)
            self.assertNotIn("\n", details)
        # Not UTF-8: the message itself is broken.
        for message, place in ((lambda s: s.table(["PLACE"], 1, 2), b"PLACE"), (lambda s: s.report(1), None)):
            s = self.session().open()
            data = message(s).SerializeToString()
            s.send(data.replace(place, b"\xff\xfe\xc0\xaf\x80") if place else data[:-3])
            code, details = s.ended()
            self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, details)
        for run, words in (("bad\nrun", "control"), ("", "empty"), ("r" * 257, "256")):
            s = self.session()
            s.send(s.hello(run))
            code, details = s.ended()
            self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, repr(run))
            self.assertIn(words, details)
        # Quotes and backslashes are legal, and come back as they were.
        run, tensor = 'say "hi" \\ {x="y"} 💡', 'a["b"].\\w'
        s = self.session().open(run, names=(tensor,))
        s.send(s.report(1))
        self.assertTrue(s.wait("ack", lambda s: s.durable() == 1))
        s.finish()
        listed = self.client.call("scalewatch.v1.History/ListTensors", run=run)["tensors"]
        self.assertEqual([t["info"]["name"] for t in listed], [tensor])

    def test_messages_out_of_order(self):
        s = self.session()
        s.send(s.report(1))
        code, details = s.ended()
        self.assertEqual(code, grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn("Hello", details)
        s = self.session().open()
        s.send(s.hello())
        self.assertEqual(s.ended()[0], grpc.StatusCode.FAILED_PRECONDITION)
        for fields, words in ((dict(protocol_version=0), "protocol_version"), (dict(rank=1), "rank"),
                              (dict(world_size=0), "world_size"), (dict(incarnation=b"short"), "incarnation")):
            s = self.session()
            s.send(s.hello(**fields))
            code, details = s.ended()
            self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, fields)
            self.assertIn(words, details)


if __name__ == "__main__":
    main()
