"""One version everywhere: CMake's is in every program, in what a server tells a client and Prometheus, and in every file that has to
repeat it."""
import concurrent.futures
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
from harness import BIN, Case, get, main, need_grpc, wait_for  # noqa: E402

VERSION = re.search(r"project\(Scalewatch VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def text(path):
    return (ROOT / path).read_text()


class Version(Case):
    def test_files_that_repeat_it(self):
        header = text("client_lib/include/scalewatch/scalewatch.h")
        self.assertEqual(".".join(re.findall(r"#define SCALEWATCH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)), VERSION)
        for path, pattern in (("pyproject.toml", r'^version = "(.*)"'), ("client_lib/python/scalewatch/__init__.py", r'^__version__ = "(.*)"'),
                              ("deploy/helm/scalewatch/Chart.yaml", r"^version: (.*)"),
                              ("deploy/helm/scalewatch/Chart.yaml", r"^appVersion: (.*)"),
                              ("deploy/debian/changelog", r"\Ascalewatch \((.*)-\d+\)"),
                              ("deploy/docker/Dockerfile", r"scalewatch/scalewatchd:(\S+)")):
            self.assertEqual(re.search(pattern, text(path), re.M).group(1), VERSION, path)

    def test_programs(self):
        for name in ("scalewatchd", "scalewatch", "scalewatch-demo"):
            done = subprocess.run([BIN / name, "--version"], capture_output=True, text=True, timeout=20)
            self.assertEqual((done.returncode, done.stdout), (0, f"{name} {VERSION}\n"), done.stderr)

    def test_library(self):
        library = next((BIN.parent / "lib").glob("libscalewatch.so.?"))
        code = f"import ctypes; f = ctypes.CDLL({str(library)!r}).scalewatch_version; f.restype = ctypes.c_char_p; print(f().decode())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
        self.assertEqual(done.stdout, VERSION + "\n", done.stderr)

    def test_server_and_its_clients(self):
        """A server tells Prometheus; a client, whose Hello has no field for it, tells it as its gRPC user agent."""
        server = self.server()
        self.assertIn(f'scalewatch_build_info{{version="{VERSION}"}} 1\n', get(server.http + "/metrics"))
        grpc = need_grpc()
        agents = []

        class Listener(grpc.GenericRpcHandler):
            def service(self, details):
                agents.append(dict(details.invocation_metadata).get("user-agent", ""))

        listener = grpc.server(concurrent.futures.ThreadPoolExecutor(1), handlers=[Listener()])
        port = listener.add_insecure_port("127.0.0.1:0")
        listener.start()
        self.addCleanup(listener.stop, None)
        trainer = self.spawn([BIN / "scalewatch-demo", "healthy", "--server", f"127.0.0.1:{port}", "--steps", "100000"])
        wait_for("the client's stream", lambda: agents)
        trainer.kill()
        self.assertTrue(agents[0].startswith(f"scalewatch-client/{VERSION} "), agents)


if __name__ == "__main__":
    main()
