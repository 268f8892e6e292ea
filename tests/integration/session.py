"""A client that speaks the ingest protocol by hand, so that it can say what no real client would."""
import itertools
import os
import queue
import threading
import time

from reflection import grpc

STREAM = "scalewatch.v1.Ingest/Stream"
_orders = itertools.count(time.time_ns())


class Words:
    """What a well-behaved client says."""

    def __init__(self, client):
        client.method(STREAM)
        self.new = client.message("scalewatch.v1.ClientMessage")

    def hello(self, run="raw", **fields):
        message = self.new()
        hello = message.hello
        hello.protocol_version = 1
        hello.run, hello.world_size = run, 1
        hello.incarnation = os.urandom(16)
        hello.incarnation_order = next(_orders)
        hello.compute_dtype = 3
        scaler = hello.scalers.add(name="default", policy="pytorch")
        scaler.parameters["init_scale"] = 65536
        hello.optimizers.add(name="sgd")
        for name, value in fields.items():
            setattr(hello, name, value)
        return message

    def table(self, names, first_id=0, version=1):
        message = self.new()
        message.table.version, message.table.first_id = version, first_id
        for index, name in enumerate(names):
            message.table.infos.add(name=name, role=1, dtype=3, numel=10, forward_index=index)
        return message

    def report(self, seq, ids=(0,), attempt=None, step=None, loss=1.0, skipped=False, scale=65536, **columns):
        message = self.new()
        report = message.report
        report.seq, report.attempt, report.step, report.loss = seq, attempt or seq, seq if step is None else step, loss
        observation = report.scalers.add(scale_before=scale, scale_after=scale / 2 if skipped else scale)
        found = 1 if skipped else 0
        observation.optimizers.add(found_inf_local=found, found_inf_decided=found, outcome=2 if skipped else 1)
        if ids:
            block = report.blocks.add(role=1, measured_under_scale=65536, target=3, count=len(ids))
            block.ids.extend(ids)
            for column in ("min", "max", "absmin_nonzero", "sum", "sum_sq"):
                getattr(block, column).extend(columns.get(column, [1.0] * len(ids)))
            for column in ("zero", "subnormal"):
                getattr(block, column).extend(columns.get(column, []))
            for index, count in columns.get("nan", []):
                block.nan.add(index=index, count=count)
        return message

    def goodbye(self, last_seq=0):
        message = self.new()
        message.goodbye.last_seq, message.goodbye.reason = last_seq, "finished"
        return message

    def heartbeat(self):
        message = self.new()
        message.heartbeat.phase = 1
        return message


class Session(Words):
    """One stream of a client that speaks the protocol by hand."""

    def __init__(self, client):
        super().__init__(client)
        self._requests = queue.Queue()
        self.answers = []
        self.status = None
        self._changed = threading.Condition()
        self._reading = threading.Event()
        self._reading.set()
        self._call = client.stream(STREAM, iter(self._requests.get, None), raw=True, timeout=400)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        code, details = grpc.StatusCode.OK, ""
        try:
            for answer in self._call:
                self._reading.wait()
                with self._changed:
                    self.answers.append(answer)
                    self._changed.notify_all()
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        with self._changed:
            self.status = (code, details)
            self._changed.notify_all()

    def send(self, message):
        self._requests.put(message if isinstance(message, bytes) else message.SerializeToString())

    def wait(self, what, condition, timeout=200, strict=True):
        """Waits until condition(self) is true or the stream has ended; strict: neither in time is a failure."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self) or self.status, timeout) and strict:
                raise AssertionError(f"no {what}: {self.answers}")
            return condition(self)

    def ended(self):
        self.wait("end of the stream", lambda s: s.status)
        self._requests.put(None)
        return self.status

    def read_no_more(self):
        """From now on nothing that the server sends is taken, as by a client that hangs."""
        self._reading.clear()

    def cut(self):
        """The connection goes without a word, as when the process is killed."""
        self._call.cancel()
        self._reading.set()
        self._requests.put(None)
        self.wait("end of the stream", lambda s: s.status)

    def finish(self):
        """Closes from this side."""
        self._requests.put(None)
        self.wait("end of the stream", lambda s: s.status)

    def faults(self):
        return [a.fault for a in self.answers if a.HasField("fault")]

    def durable(self):
        return max((a.ack.durable_seq for a in self.answers if a.HasField("ack")), default=0)

    def open(self, run="raw", names=("w",), **fields):
        self.sent_hello = self.hello(run, **fields)
        self.send(self.sent_hello)
        self.wait("HelloAck", lambda s: any(a.HasField("hello_ack") for a in s.answers))
        if names:
            self.send(self.table(names))
        return self
