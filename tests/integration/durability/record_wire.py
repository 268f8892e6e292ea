"""Records what the client of this build says to a server into tests/data/wire, and what the run is then. Run it once a protocol version:

    SCALEWATCH_BIN=build/release/bin /usr/bin/python3 -B tests/integration/durability/record_wire.py NAME

writes NAME.wire (a training with a skip, histograms, a misuse, a NaN), NAME-outage.wire (the server came late: reports without
statistics and losses) and the expectations beside them. --strip also writes first.wire: the same training in the words that the
first client had. A recording is never written anew: its client is out there.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BIN, ROOT, Server, free_port, wait_for
from reflection import Client, grpc
from session import STREAM
from wire import WIRE, facts_of, replay, write

# The fields that the first client knew, by message; of those not named, all.
FIRST = {
    "Hello": range(1, 20),
    "Report": range(1, 17),
    "ClientStats": range(1, 6),
}


def strip(message):
    """Leaves only what the first client could say."""
    known = FIRST.get(message.DESCRIPTOR.name)
    for field, value in list(message.ListFields()):
        if known is not None and field.number not in known:
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE and not (field.message_type.GetOptions().map_entry):
            for each in value if field.label == field.LABEL_REPEATED else [value]:
                strip(each)


class Recorder(grpc.GenericRpcHandler):
    """Passes a stream on to the server, both ways and byte by byte, and keeps what the client said."""

    def __init__(self, address):
        self._forward = grpc.insecure_channel(address).stream_stream("/" + STREAM)
        self.said = []

    def service(self, details):
        return grpc.stream_stream_rpc_method_handler(self._stream) if details.method == "/" + STREAM else None

    def _stream(self, requests, context):
        def heard():
            for request in requests:
                self.said.append(request)
                yield request
        yield from self._forward(heard())


def record(server, run, attempts, late):
    recorder = Recorder(server.address)
    port = free_port()
    listener = grpc.server(futures.ThreadPoolExecutor(4), handlers=(recorder,))
    if not late:
        listener.add_insecure_port(f"127.0.0.1:{port}")
        listener.start()
    trainer = subprocess.Popen([str(BIN / "client_wire_trainer"), f"127.0.0.1:{port}", run, str(attempts), "0", "1"],
                               stdout=subprocess.PIPE, text=True)
    trainer.stdout.readline()
    if late:
        listener.add_insecure_port(f"127.0.0.1:{port}")
        listener.start()
    if trainer.wait(120) != 0:
        raise SystemExit("the trainer failed")
    wait_for("the goodbye", lambda: server.api(f"runs/{run}")["run"]["status"] == "RUN_STATUS_FINISHED")
    listener.stop(None)
    return recorder.said


def keep(name, said, client):
    path = WIRE / f"{name}.wire"
    if path.exists():
        raise SystemExit(f"{path} is there already: a recording is never written anew")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        server.start()
        try:
            with Client(server.address) as fresh:
                run = replay(fresh, said)
                facts = facts_of(server, run)
        finally:
            server.stop()
    write(path, said)
    path.with_suffix(".json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
    print(f"{path.relative_to(ROOT)}: {len(said)} messages, {path.stat().st_size} bytes")


def main():
    name = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        server.start()
        try:
            with Client(server.address) as client:
                client.method(STREAM)
                ClientMessage = client.message("scalewatch.v1.ClientMessage")
                plain = record(server, name, 12, late=False)
                outage = record(server, f"{name}-outage", 250, late=True)
                keep(name, plain, client)
                keep(f"{name}-outage", outage, client)
                if "--strip" in sys.argv:
                    first = []
                    for data in plain:
                        message = ClientMessage.FromString(data)
                        strip(message)
                        if message.HasField("hello"):
                            message.hello.run = "first"
                        first.append(message.SerializeToString())
                    keep("first", first, client)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
