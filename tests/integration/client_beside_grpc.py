"""Runs inside client_beside_grpc_test.py's processes: the client library beside Python's own gRPC and Protobuf.

client_beside_grpc.py ORDER MODE LIBRARY PROTO_FOLDER: ORDER is "client first" or "grpc first", MODE "local" or "global" as for
dlopen. Both carry traffic at the same time: a Python server that the client and a Python channel report to. Prints as JSON
what the process holds.
"""
import concurrent.futures
import ctypes
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

REPORTS = 50


def mapped():
    """Base names of all shared objects in this process."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return sorted({os.path.basename(line.split()[-1]) for line in lines if ".so" in line})


class Options(ctypes.Structure):
    """scalewatch_options as first released."""
    _fields_ = [("size", ctypes.c_size_t), ("server", ctypes.c_char_p), ("run", ctypes.c_char_p), ("rank", ctypes.c_uint32),
                ("world_size", ctypes.c_uint32), ("compute_dtype", ctypes.c_int32), ("framework", ctypes.c_char_p),
                ("job_id", ctypes.c_char_p), ("gpu_uuid", ctypes.c_char_p), ("labels", ctypes.c_void_p),
                ("label_count", ctypes.c_size_t), ("buffer_bytes", ctypes.c_uint64)]


def load_client(path, mode):
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL if mode == "global" else ctypes.RTLD_LOCAL)
    library.scalewatch_last_error.restype = ctypes.c_char_p
    return library


def client_reports(library, address):
    options = Options(size=ctypes.sizeof(Options), server=address.encode(), run=b"client")
    monitor = ctypes.c_void_p()

    def check(status):
        if status != 0:
            raise RuntimeError(library.scalewatch_last_error().decode())

    check(library.scalewatch_open(ctypes.byref(options), ctypes.byref(monitor)))
    for step in range(REPORTS):
        check(library.scalewatch_begin_attempt(monitor, ctypes.c_int64(step)))
        check(library.scalewatch_set_loss(monitor, ctypes.c_double(step)))
        check(library.scalewatch_end_attempt(monitor))
    check(library.scalewatch_wait_durable(monitor, ctypes.c_int64(30_000)))
    check(library.scalewatch_close(monitor, ctypes.c_int64(30_000), None))


def load_grpc():
    import grpc
    import google.protobuf.message  # noqa: F401: with its native part
    return grpc


def compile_contract(folder, proto):
    """The contract's messages, made by this environment's own protoc: in this process where it is a module."""
    files = [str(path.relative_to(proto)) for path in sorted(proto.glob("scalewatch/v1/*.proto"))]
    arguments = ["protoc", f"-I{proto}", f"--python_out={folder}"] + files
    try:
        from grpc_tools import protoc
        status = protoc.main(arguments)
    except ImportError:
        status = subprocess.run(arguments, check=False).returncode
    if status != 0:
        raise RuntimeError("protoc failed")
    sys.path.insert(0, str(folder))
    return importlib.import_module("scalewatch.v1.ingest_pb2")


def main():
    order, mode, path, proto = sys.argv[1:5]
    before = mapped()
    if order == "client first":
        library = load_client(path, mode)
        with_client = mapped()
        grpc = load_grpc()
    else:
        grpc = load_grpc()
        before = mapped()
        library = load_client(path, mode)
        with_client = mapped()

    with tempfile.TemporaryDirectory() as folder:
        v1 = compile_contract(folder, pathlib.Path(proto))
    losses = {}

    def serve(requests, _context):
        for message in requests:
            if message.HasField("hello"):
                run = message.hello.run
                yield v1.ServerMessage(hello_ack=v1.HelloAck(need_table=True))
            if message.HasField("report"):
                losses.setdefault(run, []).append(message.report.loss)
                yield v1.ServerMessage(ack=v1.Ack(folded_seq=message.report.seq, durable_seq=message.report.seq))
            if message.HasField("goodbye"):
                return

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("scalewatch.v1.Ingest", {
        "Stream": grpc.stream_stream_rpc_method_handler(serve, v1.ClientMessage.FromString, v1.ServerMessage.SerializeToString)}),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()

    def python_reports():
        with grpc.insecure_channel(address) as channel:
            stream = channel.stream_stream("/scalewatch.v1.Ingest/Stream", request_serializer=v1.ClientMessage.SerializeToString,
                                           response_deserializer=v1.ServerMessage.FromString)
            messages = [v1.ClientMessage(hello=v1.Hello(run="python"))]
            messages += [v1.ClientMessage(report=v1.Report(seq=i + 1, loss=i)) for i in range(REPORTS)]
            messages.append(v1.ClientMessage(goodbye=v1.Goodbye()))
            return sum(1 for _ in stream(iter(messages), timeout=60))

    with concurrent.futures.ThreadPoolExecutor(2) as both:
        answers = both.submit(python_reports)
        both.submit(client_reports, library, address).result()
        answers = answers.result()
    server.stop(grace=None).wait()
    print(json.dumps({"grpc": grpc.__version__, "answers": answers, "losses": losses, "all": mapped(),
                      "came_with_client": sorted(set(with_client) - set(before))}))


main()
