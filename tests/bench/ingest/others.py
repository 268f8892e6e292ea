"""What ClickHouse and Prometheus take in on this machine, each started from Debian's package in a folder and on ports of its own.

Prints a line each: `clickhouse ROWS_A_SECOND`, rows of 16 columns by direct RowBinary inserts; `prometheus SAMPLES_A_SECOND` by
remote write; or the name and why it was not measured. Bodies are made before the clock runs: what is measured is the server.
"""
import contextlib
import http.client
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOLS = ROOT / "build/tools"
SECONDS = 10
SENDERS = 4


def program(name):
    for folder in ("/usr/bin", "/usr/sbin", TOOLS / "usr/bin", TOOLS / "usr/sbin"):
        if (pathlib.Path(folder) / name).exists():
            return str(pathlib.Path(folder) / name)
    return shutil.which(name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(command, folder, port, ready):
    """A server that answers `ready` with 200; ended in the end."""
    # What was unpacked and not installed finds its libraries beside it.
    libraries = ":".join(str(each) for name in ("usr/lib", "lib") for each in sorted((TOOLS / name).glob("*-linux-gnu")))
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries} if command[0].startswith(str(TOOLS)) else None
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", ready)
                if connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            if process.poll() is not None or time.monotonic() > end:
                tail = (folder / "log").read_text(errors="replace").strip().splitlines()[-1:]
                raise RuntimeError("it did not start: " + " ".join(tail))
            time.sleep(0.2)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def rate(port, path, headers, body_of, amount):
    """Amounts a second that are acknowledged; each sender has a connection and bodies of its own."""
    done, errors = [0] * SENDERS, []
    end = time.monotonic() + SECONDS

    def send(sender):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            for number in range(1 << 30):
                if time.monotonic() > end:
                    return
                connection.request("POST", path, body_of(sender, number), headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status >= 300:
                    raise RuntimeError(text[:100].decode(errors="replace").replace("\n", " "))
                done[sender] += amount
        except Exception as error:  # noqa: BLE001: told by the main thread
            errors.append(error)

    begin = time.monotonic()
    threads = [threading.Thread(target=send, args=(i,)) for i in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sum(done) / (time.monotonic() - begin)


def clickhouse(folder):
    server = program("clickhouse-server")
    if not server:
        return "clickhouse-server is missing"
    port, tcp, between = free_port(), free_port(), free_port()
    (folder / "users.xml").write_text(
        "<yandex><profiles><default/></profiles><users><default><password></password><networks><ip>127.0.0.1</ip></networks>"
        "<profile>default</profile><quota>default</quota></default></users><quotas><default/></quotas></yandex>")
    (folder / "config.xml").write_text(
        f"<yandex><logger><level>warning</level><log>{folder}/server.log</log><errorlog>{folder}/error.log</errorlog></logger>"
        f"<http_port>{port}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_port>{between}</interserver_http_port>"
        f"<listen_host>127.0.0.1</listen_host><path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>"
        f"<users_config>{folder}/users.xml</users_config><default_profile>default</default_profile>"
        "<default_database>default</default_database><mark_cache_size>67108864</mark_cache_size></yandex>")
    row = struct.Struct("<HIIQI8f3I")  # 16 columns
    columns = ["day Date", "run UInt32", "rank UInt32", "attempt UInt64", "tensor UInt32"]
    columns += [f"f{i} Float32" for i in range(8)] + [f"n{i} UInt32" for i in range(3)]
    rows = 50_000
    draw = random.Random(1)
    bodies = [b"".join(row.pack(20_000, 1, 0, attempt, i % 1000, *(draw.gauss(0, 1) for _ in range(8)), 0, i % 16, 0)
                       for i in range(rows)) for attempt in range(SENDERS)]
    with running([server, f"--config-file={folder}/config.xml"], folder, port, "/?query=SELECT%201"):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/", f"CREATE TABLE r ({', '.join(columns)}) ENGINE = MergeTree(day, (tensor, attempt), 8192)")
        answer = connection.getresponse()
        if answer.status != 200:
            return answer.read()[:100].decode(errors="replace")
        return rate(port, "/?query=INSERT%20INTO%20r%20FORMAT%20RowBinary", {}, lambda sender, _: bodies[sender], rows)


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def snappy(data):
    """The data as one literal, which every decoder of the block format takes."""
    return varint(len(data)) + b"\xfc" + struct.pack("<I", len(data) - 1) + data


def prometheus(folder):
    server = program("prometheus")
    if not server:
        return "prometheus is missing"
    port = free_port()
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
    begin = int(time.time() * 1000)
    marks = [varint(begin - 1 - sender) for sender in range(SENDERS)]  # stands for the moment; as long as any of ours
    draw = random.Random(1)
    requests, samples = [], 6000  # 500 records of 12
    for sender in range(SENDERS):
        series = []
        for i in range(samples):
            labels = b"".join(field(1, field(1, name) + field(2, value)) for name, value in (
                (b"__name__", b"record_%d" % (i % 12)), (b"rank", b"%d" % sender), (b"tensor", b"layers.%d.weight" % (i // 12))))
            sample = b"\x09" + struct.pack("<d", draw.gauss(0, 1)) + b"\x10" + marks[sender]
            series.append(field(1, labels + field(2, sample)))
        requests.append(b"".join(series))
    headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf", "X-Prometheus-Remote-Write-Version": "0.1.0"}

    def body(sender, number):
        return snappy(requests[sender].replace(b"\x10" + marks[sender], b"\x10" + varint(begin + number)))

    command = [server, "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}",
               "--web.enable-remote-write-receiver", "--log.level=error"]
    with running(command, folder, port, "/-/ready"):
        return rate(port, "/api/v1/write", headers, body, samples)


for measure in (clickhouse, prometheus):
    with tempfile.TemporaryDirectory(prefix="scalewatch-others-") as name:
        try:
            result = measure(pathlib.Path(name))
        except Exception as error:  # noqa: BLE001: the other one is measured all the same
            result = str(error).replace("\n", " ")
        print(measure.__name__, f"{result:.0f}" if isinstance(result, float) else result, flush=True)
