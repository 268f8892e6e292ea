"""Every limit of a token, and every limit of all together, met by a client that goes beyond it: it is told so in words, it is counted,
and somebody else's run goes on as if nothing were."""
import json
import pathlib
import re
import socket
import threading
import time
import urllib.request

from guarded import GuardedClient, SecurityCase
from harness import main, wait_for
from reflection import grpc
from session import Session

BAD, LIMIT = grpc.StatusCode.RESOURCE_EXHAUSTED, 6  # FAULT_CAUSE_LIMIT


class LimitsCase(SecurityCase):
    def serve(self, *settings):
        self.admin, _ = self.token("admin")
        self.scalewatchd = self.with_tokens(*settings)

    def session(self, token):
        client = GuardedClient(self.scalewatchd.address, token)
        self.addCleanup(client.close)
        return Session(client)

    def refused(self, cause):
        return self.refusals(self.scalewatchd, self.admin, cause)

    def metric(self, name):
        return float(re.search(rf"^{name} (\S+)$", self.ask(self.scalewatchd, "/metrics", self.admin)[1], re.M).group(1))

    def assert_ends(self, session, code, *words):
        """How a stream ends; returns its faults."""
        found, details = session.ended()
        self.assertEqual(found, code, details)
        for word in words:
            self.assertIn(word, details)
        return session.faults()

    def attempts(self, run):
        return int(self.ask_json(f"/api/v1/runs/{run}")["run"]["attempts"])

    def ask_json(self, path):
        status, body = self.ask(self.scalewatchd, path, self.admin)
        self.assertEqual(status, 200, body)
        return json.loads(body)


class OfAToken(LimitsCase):
    """Beside each of them the real client sends a run of its own with another token, which loses nothing."""

    def setUp(self):
        super().setUp()
        other, _ = self.token("ingest:bystander")
        self.serve("limits.max_queries_per_token=2", "limits.hello_within=500ms", "limits.reader_patience=1s")
        self.done = []
        self.bystander = threading.Thread(target=lambda: self.done.append(
            self.train(self.scalewatchd, "bystander", {"SCALEWATCH_TOKEN_FILE": other})))
        self.bystander.start()

    def tearDown(self):
        self.bystander.join()
        wait_for("the bystander's end", lambda: self.ask_json("/api/v1/runs/bystander")["run"]["status"] == "RUN_STATUS_FINISHED")
        run = self.ask_json("/api/v1/runs/bystander")["run"]
        self.assertEqual((int(run["applied"]) + int(run["skipped"]), int(run["lost_reports"])), (60, 0))
        self.assert_no_secret_was_told(self.scalewatchd)
        super().tearDown()

    def test_streams(self):
        token, _ = self.token("ingest", limits=["streams=1"])
        first = self.session(token).open("a")
        second = self.session(token)
        second.send(second.hello("b"))
        self.assert_ends(second, BAD, "as many streams open as it may")
        self.assertEqual(self.refused("streams"), 1)
        first.send(first.report(1))
        self.assertTrue(first.wait("ack", lambda s: s.durable() == 1))
        first.finish()
        # The place is free again.
        again = self.session(token).open("b")
        again.finish()

    def test_runs(self):
        token, _ = self.token("ingest", limits=["runs=1"])
        first = self.session(token).open("a", world_size=2)
        same = self.session(token).open("a", world_size=2, rank=1)
        other = self.session(token)
        other.send(other.hello("b"))
        self.assert_ends(other, BAD, "as many runs at once as it may")
        self.assertEqual(self.refused("runs"), 1)
        for session in (first, same):
            session.finish()
        self.session(token).open("b").finish()

    def test_tensors(self):
        token, _ = self.token("ingest", limits=["tensors=3"])
        session = self.session(token).open("a", names=("a", "b", "c"))
        session.send(session.report(1, ids=(0, 1, 2)))
        self.assertTrue(session.wait("ack", lambda s: s.durable() == 1))
        session.send(session.table(("d",), first_id=3, version=2))
        [fault] = self.assert_ends(session, BAD, "4 tensors; this token may send at most 3")
        self.assertEqual((fault.cause, self.refused("tensors")), (LIMIT, 1))
        wait_for("what came before", lambda: self.attempts("a") == 1)

    def test_message_bytes(self):
        token, _ = self.token("ingest", limits=["message_bytes=2000"])
        session = self.session(token).open("a")
        session.send(session.table(["x" * 100] * 30, first_id=1, version=2))
        [fault] = self.assert_ends(session, BAD, "a message of 3", "this token may send at most 2000")
        self.assertEqual((fault.cause, self.refused("message")), (LIMIT, 1))

    def test_records_a_second(self):
        rate, records = 1000, 500
        token, _ = self.token("ingest", limits=[f"records_per_second={rate}"])
        began = time.monotonic()
        session = self.session(token).open("a", names=[f"t{i}" for i in range(records)])
        for seq in range(1, 31):
            session.send(session.report(seq, ids=range(records)))
        session.wait("the last ack", lambda s: s.durable() == 30)
        # Ten seconds' worth at once, then as the rate allows: slower is no fault, faster is one. A report is judged by those before.
        self.assertLessEqual(30 * records, rate * 10 + rate * (time.monotonic() - began) + records)
        self.assertEqual(session.durable(), 30)
        self.assertGreater(self.metric("scalewatch_ingest_slowed_total"), 0)
        self.assertEqual(self.refused("records_per_second"), 0)
        session.finish()

    def test_far_more_records_than_a_second_allows(self):
        token, _ = self.token("ingest", limits=["records_per_second=50"])
        session = self.session(token).open("a", names=[f"t{i}" for i in range(2000)])
        session.send(session.report(1, ids=range(2000)))  # 30 seconds ahead of the rate
        session.send(session.report(2, ids=range(2000)))
        self.assertEqual(self.assert_ends(session, BAD, "more records a second came than are allowed"), [])
        self.assertEqual(self.refused("records_per_second"), 1)
        wait_for("the first report", lambda: self.attempts("a") == 1)

    def test_bytes_a_day(self):
        token, _ = self.token("ingest", limits=["bytes_per_day=20000"])
        session = self.session(token).open("a", names=[f"t{i}" for i in range(50)])
        for seq in range(1, 100):
            session.send(session.report(seq, ids=range(50)))
        self.assertEqual(self.assert_ends(session, BAD, "as many bytes as it may for now"), [])
        self.assertEqual(self.refused("bytes_per_day"), 1)
        kept = wait_for("what was taken", lambda: self.attempts("a"))
        self.assertLess(kept, 99)
        # Who comes again is told the same, and the real client trains on.
        again = self.session(token)
        again.send(again.hello("a"))
        self.assert_ends(again, BAD, "as many bytes as it may for now")
        self.assertIn("60", self.train(self.scalewatchd, "c", {"SCALEWATCH_TOKEN_FILE": token}))

    def test_queries(self):
        reader, _ = self.token("read", limits=["queries=1"])
        wait_for("the bystander", lambda: self.ask(self.scalewatchd, "/api/v1/runs/bystander", self.admin)[0] == 200)
        client = GuardedClient(self.scalewatchd.address, reader)
        self.addCleanup(client.close)
        watch = client.read("scalewatch.v1.Alerts/WatchAlerts")

        def refused():
            code, text = self.command(self.scalewatchd, reader, "runs")
            return code != 0 and "as many calls under way as it may" in text

        wait_for("the one call to be under way", refused)
        self.assertEqual(self.ask(self.scalewatchd, "/api/v1/runs", reader)[0], 429)
        self.assertGreaterEqual(self.refused("queries"), 2)
        watch.cancel()
        wait_for("its place to be free", lambda: self.command(self.scalewatchd, reader, "runs")[0] == 0)

    def test_queries_of_a_token_without_a_limit_of_its_own(self):
        reader, _ = self.token("read")
        clients = [GuardedClient(self.scalewatchd.address, reader) for _ in range(2)]
        watches = [client.read("scalewatch.v1.Alerts/WatchAlerts") for client in clients]

        def taken():
            # The question itself may have had the place of one of them.
            for i, client in enumerate(clients):
                if watches[i].done():
                    watches[i] = client.read("scalewatch.v1.Alerts/WatchAlerts")
            return self.ask(self.scalewatchd, "/api/v1/runs", reader)[0] == 429

        wait_for("both to be under way", taken)
        self.assertEqual(self.ask(self.scalewatchd, "/api/v1/runs", self.admin)[0], 200)
        for watch, client in zip(watches, clients):
            watch.cancel()
            client.close()

    def test_no_hello(self):
        token, _ = self.token("ingest")
        self.assert_ends(self.session(token), grpc.StatusCode.DEADLINE_EXCEEDED, "no Hello came within 500 ms")
        self.assertEqual(self.refused("no_hello"), 1)

    def test_slow_reader(self):
        reader, _ = self.token("read")
        sender, _ = self.token("ingest:busy")
        # Who sees 60 kB and takes nothing more holds a thread of the server.
        session = self.session(sender).open("busy", names=[f"t{i}" for i in range(3)])
        session.send(session.report(1, ids=range(3)))
        self.assertTrue(session.wait("ack", lambda s: s.durable() == 1))
        client = GuardedClient(self.scalewatchd.address, reader)
        self.addCleanup(client.close)
        tail = client.read("scalewatch.v1.History/TailRun", run="busy")
        tail.initial_metadata()
        seq = [1]

        def cut():
            for _ in range(200):
                seq[0] += 1
                session.send(session.report(seq[0], ids=range(3)))
            return self.refused("slow_reader") == 1

        wait_for("the reader to be cut", cut, 120)
        with self.assertRaises(grpc.RpcError) as ended:
            for _ in tail:
                pass
        self.assertEqual(ended.exception.code(), grpc.StatusCode.CANCELLED)
        session.finish()

    def test_no_token_and_the_wrong_one(self):
        reader, _ = self.token("read:others")
        self.assertEqual(self.ask(self.scalewatchd, "/api/v1/runs")[0], 401)
        self.assertEqual(self.ask(self.scalewatchd, "/api/v1/runs/bystander", reader)[0], 403)
        self.assertNotEqual(self.command(self.scalewatchd, reader, "show", "bystander")[0], 0)
        wrong = self.folder / "wrong"
        text = reader.read_text().strip()
        wrong.write_text(text[:-1] + ("a" if text[-1] != "a" else "b"))
        for _ in range(6):
            self.ask(self.scalewatchd, "/api/v1/runs", wrong)
        sender, _ = self.token("ingest:mine")
        session = self.session(sender)
        session.send(session.hello("theirs"))
        self.assert_ends(session, grpc.StatusCode.PERMISSION_DENIED, "may not send run theirs")
        self.assertEqual([self.refused(cause) for cause in ("no_token", "wrong_token", "locked_out", "scope")], [1, 5, 1, 3])


class OfAllTogether(LimitsCase):
    def test_streams(self):
        self.serve("limits.max_streams=1")
        token, _ = self.token("ingest")
        first = self.session(token).open("a")
        second = self.session(token)
        second.send(second.hello("b"))
        self.assert_ends(second, BAD, "limits.max_streams")
        self.assertEqual(self.refused("streams"), 1)
        first.send(first.report(1))
        self.assertTrue(first.wait("ack", lambda s: s.durable() == 1))
        first.finish()

    def test_runs_tensors_and_names(self):
        self.serve("engine.max_runs=2", "limits.max_tensors=3", "limits.max_name=16B")
        token, _ = self.token("ingest")
        first = self.session(token).open("a")
        many = self.session(token).open("b", names=("a", "b", "c", "d"))
        self.assertEqual([fault.cause for fault in self.assert_ends(many, BAD, "at most 3")], [LIMIT])
        long = self.session(token).open("b", names=("x" * 17,))
        self.assert_ends(long, grpc.StatusCode.INVALID_ARGUMENT, "longer than 16 bytes")
        third = self.session(token)
        third.send(third.hello("c"))
        # Not for good: there will be fewer, as runs end.
        self.assertEqual(self.assert_ends(third, BAD, "2 runs are watched already"), [])
        self.assertEqual((self.refused("tensors"), self.refused("runs")), (1, 1))
        first.send(first.report(1))
        self.assertTrue(first.wait("ack", lambda s: s.durable() == 1))
        first.finish()

    def test_message_bytes(self):
        self.serve("limits.max_message=64KiB")
        token, _ = self.token("ingest")
        first = self.session(token).open("a")
        large = self.session(token).open("b")
        large.send(large.table(["x" * 500] * 200, first_id=1, version=2))
        self.assert_ends(large, BAD, "larger than max", "65536")  # gRPC's own words, before it is read
        first.send(first.report(1))
        self.assertTrue(first.wait("ack", lambda s: s.durable() == 1))
        first.finish()

    def test_records_a_second(self):
        self.serve("limits.max_records_per_second=1000")
        tokens = [self.token("ingest")[0] for _ in range(2)]
        began = time.monotonic()
        sessions = [self.session(token).open(f"r{i}", names=[f"t{i}" for i in range(500)]) for i, token in enumerate(tokens)]
        for seq in range(1, 15):
            for session in sessions:
                session.send(session.report(seq, ids=range(500)))
        for session in sessions:
            session.wait("the last ack", lambda s: s.durable() == 14)
        took = time.monotonic() - began
        self.assertLessEqual(sum(session.durable() for session in sessions) * 500, 1000 * 10 + 1000 * took + 1000)
        self.assertGreater(self.metric("scalewatch_ingest_slowed_total"), 0)

    def test_compressed_messages_are_not_unpacked(self):
        """A few kilobytes that become 200 MiB: refused before that."""
        self.serve()
        token, _ = self.token("ingest")
        client = GuardedClient(self.scalewatchd.address, token, compression=grpc.Compression.Gzip)
        self.addCleanup(client.close)
        before = self.peak_memory()
        session = Session(client)
        session.send(b"\0" * (200 << 20))
        self.assert_ends(session, grpc.StatusCode.UNIMPLEMENTED, "gzip")
        self.assertLess(self.peak_memory() - before, 100 << 20)

    def test_odd_metadata(self):
        """Headers as large as a connection takes them, twice, empty, of another kind: an error to that call and nothing else."""
        self.serve()
        reader, _ = self.token("read")
        text = reader.read_text().strip()
        client = GuardedClient(self.scalewatchd.address, None)
        self.addCleanup(client.close)
        name = "scalewatch.v1.History/ListRuns"
        output = client.message(client.method(name).output_type.full_name)

        def call(*metadata):
            ask = client.channel.unary_unary("/" + name, response_deserializer=output.FromString)
            try:
                ask(b"", timeout=20, metadata=metadata)
                return grpc.StatusCode.OK
            except grpc.RpcError as error:
                self.said.append(error.details() or "")
                return error.code()

        good = ("authorization", "Bearer " + text)
        self.assertEqual(call(good), grpc.StatusCode.OK)
        before = self.peak_memory()
        for odd in ([("x", "a" * 1_000_000)], [(f"x{i}", "a" * 1000) for i in range(500)], [("authorization", "Bearer " + "a" * 1_000_000)]):
            self.assertIn(call(*odd), (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE))
        self.assertLess(self.peak_memory() - before, 50 << 20)
        # Such a header may end its connection, and the channel needs a moment for the next.
        wait_for("a connection", lambda: call(good) == grpc.StatusCode.OK)
        for odd in ([("authorization", "")], [("authorization", text)], [("authorization", "Bearer " + text + "x")], [("authorization-bin", b"\0" + text.encode())],
                    [("authorization", "Bearer"), good], [("authorization", "Bearer " + text.upper())], [("authorization", "Basic " + text)]):
            self.assertEqual(call(*odd), grpc.StatusCode.UNAUTHENTICATED, odd)
        self.assertEqual(call(good), grpc.StatusCode.OK)
        self.assert_no_secret_was_told(self.scalewatchd)

    def peak_memory(self):
        status = pathlib.Path(f"/proc/{self.scalewatchd.process.pid}/status").read_text()
        return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.M).group(1)) << 10


class OfHttp(LimitsCase):
    def connect(self, sent=b""):
        made = socket.create_connection(("127.0.0.1", self.scalewatchd.http_port), timeout=60)
        self.addCleanup(made.close)
        made.sendall(sent)
        return made

    @staticmethod
    def rest(connection):
        """All that still comes until the server closes."""
        parts = []
        while True:
            try:
                part = connection.recv(1 << 16)
            except ConnectionResetError:
                return b"".join(parts)
            if not part:
                return b"".join(parts)
            parts.append(part)

    def test_connections_that_send_nothing_keep_nobody_out(self):
        self.serve("http.max_connections=8", "http.idle_timeout=1h")
        slow = [self.connect(b"GET /healthz HT") for _ in range(8)]
        wait_for("an answer beside them", lambda: "ok" in urllib.request.urlopen(self.scalewatchd.http + "/healthz", timeout=10).read().decode())
        self.assertGreater(self.refused("connections"), 0)
        self.assertEqual(self.rest(slow[0]), b"")  # the oldest made room
        slow[-1].sendall(b"TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertIn(b" 200 ", self.rest(slow[-1]))  # and the newest is served when it goes on

    def test_half_a_request_ends(self):
        self.serve("http.idle_timeout=500ms")
        self.assertEqual(self.rest(self.connect(b"GET /healthz HTTP/1.1\r\nHost")), b"")
        self.assertEqual(self.rest(self.connect(b"POST /api/v1/silences HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")), b"")
        self.assertEqual(self.refused("request"), 2)

    def test_readers_who_take_nothing(self):
        self.serve("http.idle_timeout=500ms")
        made = socket.socket()
        self.addCleanup(made.close)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect(("127.0.0.1", self.scalewatchd.http_port))
        made.setblocking(False)
        asked = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000

        def cut():
            try:
                made.send(asked)
            except BlockingIOError:
                pass
            except OSError:
                return True
            return self.refused("slow_reader") > 0

        wait_for("the reader to be cut", cut)
        self.assertGreater(self.refused("slow_reader"), 0)

    def test_a_name_that_leads_here_is_not_this_servers(self):
        """A page of somebody else's, whose name he points at loopback, is of the same origin to a browser: it gets nothing."""
        scalewatchd = self.server(settings=["listen.public_url=https://watch.example.org"])

        def ask(host):
            made = socket.create_connection(("127.0.0.1", scalewatchd.http_port), timeout=60)
            self.addCleanup(made.close)
            made.sendall(b"GET /api/v1/runs HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n\r\n")
            return self.rest(made).split(b"\r\n")[0]

        for host in (b"127.0.0.1", b"localhost:9464", b"[::1]:9464", b"Watch.example.org", b"scalewatchd:9464", b"a.localhost", b""):
            self.assertIn(b" 200 ", ask(host), host)
        for host in (b"rebound.example.org", b"127.0.0.1.example.org:9464", b"watch.example.org.evil.org"):
            self.assertIn(b" 421 ", ask(host), host)

    def test_large_headers_and_bodies(self):
        self.serve()
        self.assertIn(b" 431 ", self.rest(self.connect(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (40 << 10) + b"\r\n\r\n")))
        self.assertIn(b" 431 ", self.rest(self.connect(b"GET /" + b"a" * (40 << 10) + b" HTTP/1.1\r\nHost: x\r\n\r\n")))
        self.assertIn(b" 413 ", self.rest(self.connect(b"POST /api/v1/silences HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")))
        self.assertEqual(self.refused("request"), 3)

    def test_one_request_is_never_two(self):
        """What a proxy in front could take for one request and the server for two, or the other way round: refused, and no more of
        that connection is read."""
        self.serve()
        second = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        head = b"POST /api/v1/silences HTTP/1.1\r\nHost: x\r\n"
        for odd in (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
                    b"Content-Length: 5\r\nContent-Length: 0\r\n\r\n",
                    b"Content-Length: 0, 5\r\n\r\n",
                    b"Content-Length: +5\r\n\r\n",
                    b"Content-Length: -1\r\n\r\n",
                    b"Content-Length: 0x5\r\n\r\n",
                    b"Content-Length : 5\r\n\r\n",
                    b"Content-Length: 18446744073709551617\r\n\r\n",
                    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
                    b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
                    b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
                    b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n\r\n",
                    b"X: a\r\n\tb\r\nX\0: 1\r\n\r\n",
                    b"\nContent-Length: 5\r\n\r\n"):
            with self.subTest(odd=odd):
                told = self.rest(self.connect(head + odd + second + second.replace(b"Host: x", b"Host: x\r\nConnection: close")))
                self.assertNotIn(b"ok\n", told)
                self.assertRegex(told, rb"^HTTP/1\.1 4\d\d ")
                self.assertEqual(len(re.findall(rb"HTTP/1\.1 \d", told)), 1)


if __name__ == "__main__":
    main()
