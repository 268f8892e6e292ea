"""What the integration tests share: private servers, sinks and tools, all on free loopback ports and in temporary folders.

Tests use Debian's own Python packages only. Everything that is started is ended with the test, also when it fails.
"""
import contextlib
import ctypes
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SCALEWATCH_BIN", ROOT / "build/release/bin"))
TOOLS = ROOT / "build/tools"  # what deploy/install-packages unpacks
SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def need(program):
    """Path of a program that tests/run installs; ends the script loudly as skipped when it is missing."""
    for folder in ("/usr/bin", "/usr/sbin", TOOLS / "usr/bin", TOOLS / "usr/sbin"):
        path = pathlib.Path(folder) / program
        if path.exists():
            return str(path)
    found = shutil.which(program)
    if found:
        return found
    print(f"SKIPPED: {program} is missing; tests/run installs it", flush=True)
    sys.exit(SKIPPED)


def need_grpc():
    try:
        import grpc
        import google.protobuf  # noqa: F401
        return grpc
    except ImportError as error:
        print(f"SKIPPED: {error}; tests/run installs python3-grpcio and python3-protobuf", flush=True)
        sys.exit(SKIPPED)


def end_with_parent():
    """In a child, before it becomes its program: it ends with the test, also when the test is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def free_port():
    """A loopback port that is this process's until its end.

    It stays bound by a socket that does not listen. So the system gives it to nobody else, neither for an outgoing connection
    nor as port 0, while a server (all of them ask for SO_REUSEADDR) can listen on it, end, and listen again.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    held.detach()  # open until this process ends
    return port


def wait_for(what, condition, timeout=60.0):
    """Polls until condition() is true and returns its value; an exception counts as not yet."""
    end = time.monotonic() + timeout
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except Exception as error:  # noqa: BLE001: whatever it was, the message tells it
            last = repr(error)
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout:.0f} s for {what}; last: {last!r}")
        time.sleep(0.05)


def get(url, timeout=10):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


def get_json(url):
    return json.loads(get(url))


class Sink:
    """A webhook that remembers every request. `fail` of the first requests are answered 503, to make the sender retry."""

    def __init__(self, fail=0):
        self.requests = []  # (time, headers, body as JSON)
        self.fail = fail
        self._lock = threading.Lock()
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with sink._lock:
                    refused = sink.fail > 0
                    sink.fail -= 1 if refused else 0
                    if not refused:
                        sink.requests.append((time.time(), dict(self.headers), json.loads(body)))
                self.send_response(503 if refused else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def bodies(self):
        with self._lock:
            return [body for _, _, body in self.requests]

    def keys(self):
        """Of all messages, once each: one may come twice where the server ended before it knew that it had come."""
        with self._lock:
            return {headers["Idempotency-Key"] for _, headers, _ in self.requests}

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Server:
    """A scalewatchd of its own, on the same ports over restarts."""

    def __init__(self, folder, sinks=(), settings=()):
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.log_path = self.folder / "scalewatchd.log"
        self.grpc_port, self.http_port = free_port(), free_port()
        self.process = None
        self.settings = settings
        self.environment = {}  # beyond this process's own
        self.config = self.folder / "scalewatchd.yaml"
        lines = []
        if sinks:
            lines = ["alerting:", "  sinks:"]
            for sink in sinks:
                lines.append("    - " + "\n      ".join(f"{key}: {value}" for key, value in sink.items()))
        self.config.write_text("\n".join(lines) + "\n" if lines else "log:\n  level: info\n")

    @property
    def address(self):
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def http(self):
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def history(self):
        return self.data / "history.db"

    def command(self, *extra):
        ports = self.folder / "ports"
        command = [str(BIN / "scalewatchd"), "--config", str(self.config), "--data-dir", str(self.data),
                   "--listen", f"127.0.0.1:{self.grpc_port}", "--http", f"127.0.0.1:{self.http_port}",
                   "--port-file", str(ports)]
        for setting in self.settings:
            command += ["--set", setting]
        return command + list(extra)

    def _spawn(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **self.environment}, preexec_fn=end_with_parent)

    def start(self):
        ports = self.folder / "ports"
        ports.unlink(missing_ok=True)
        self._spawn()

        def ready():
            if self.process.poll() is not None:
                told = f"scalewatchd ended with {self.process.returncode}: {self.log()}"
                if "Address already in use" in told.splitlines()[-1]:  # a killed server's sockets may outlive it for a moment
                    self._spawn()
                raise RuntimeError(told)
            found = dict(line.split("=", 1) for line in ports.read_text().split())
            self.grpc_port, self.http_port = int(found["grpc"]), int(found["http"])
            return "ready" in get(self.http + "/readyz")

        wait_for("scalewatchd to be ready", ready)
        return self

    def log(self):
        return self.log_path.read_text(errors="replace")[-4000:]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, timeout=60):
        """SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def cli(self, *arguments, check=True):
        """Runs the scalewatch command; returns (exit status, stdout, stderr)."""
        done = subprocess.run([str(BIN / "scalewatch"), "--server", self.address, *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        if check and done.returncode != 0:
            raise AssertionError(f"scalewatch {' '.join(arguments)}: exit {done.returncode}: {done.stderr}{done.stdout}")
        return done.returncode, done.stdout, done.stderr

    def cli_json(self, *arguments):
        return json.loads(self.cli("--json", *arguments)[1])

    def api(self, path):
        return get_json(self.http + "/api/v1/" + path)


class Case(unittest.TestCase):
    """A test with a folder of its own, whose processes end with it."""

    def setUp(self):
        self._stack = contextlib.ExitStack()
        self.addCleanup(self._stack.close)
        folder = tempfile.mkdtemp(prefix="scalewatch-")
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        self.folder = pathlib.Path(folder)

    def server(self, sinks=(), settings=(), start=True):
        folder = self.folder / f"server{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        server = Server(folder, sinks, settings)
        self._stack.callback(self._end_server, server)
        return server.start() if start else server

    @staticmethod
    def _end_server(server):
        if server.process is not None and server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        if os.environ.get("SCALEWATCH_TEST_VERBOSE"):
            print(server.log_path.read_text(errors="replace"))

    def sink(self, fail=0):
        sink = Sink(fail)
        self._stack.callback(sink.close)
        return sink

    def spawn(self, command):
        log = open(self.folder / (pathlib.Path(command[0]).name + ".log"), "ab")
        self._stack.callback(log.close)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent)

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()

        self._stack.callback(end)
        return process

    def demo_command(self, server, mode, *options):
        return [str(BIN / "scalewatch-demo"), mode, "--server", server.address, *options]

    def demo(self, server, mode, *options):
        """Trains to the end, waits until the server shows the goodbye, and returns what the demo printed."""
        done = subprocess.run(self.demo_command(server, mode, *options), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=400, preexec_fn=end_with_parent)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        run = urllib.parse.quote(options[options.index("--run") + 1], safe="")
        wait_for("the goodbye", lambda: server.api(f"runs/{run}")["run"]["status"] == "RUN_STATUS_FINISHED")
        return done.stdout


def findings(server, run, rule=None):
    """All findings of a run as the JSON API tells them, resolved ones included."""
    found = server.api(f"runs/{run}")["findings"]
    return [f for f in found if rule is None or f["rule"] == rule]


def worst(found):
    order = ["SEVERITY_UNSPECIFIED", "SEVERITY_INFO", "SEVERITY_WARNING", "SEVERITY_CRITICAL"]
    return max((order.index(f["severity"]) for f in found), default=0)


def main():
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    if result.wasSuccessful() and result.testsRun == len(result.skipped):
        sys.exit(SKIPPED)
    sys.exit(0 if result.wasSuccessful() else 1)


__all__ = ["BIN", "Case", "ROOT", "Server", "Sink", "TOOLS", "findings", "free_port", "get", "get_json", "main", "need", "need_grpc",
           "wait_for", "worst"]
