"""Servers with certificates and tokens, for tests of who may talk to them."""
import json
import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.request

from google.protobuf import descriptor_pb2
from harness import BIN, ROOT, Case, Server, need, wait_for
from reflection import Client, grpc

OPENSSL = need("openssl")


class Authority:
    """A certificate authority of the test's own."""

    def __init__(self, folder, name):
        self.folder = pathlib.Path(folder)
        self.name = name
        self.file = self.folder / f"{name}.pem"
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.folder / f"{name}.key",
                  "-out", self.file, "-subj", f"/CN={name}", "-days", "2")

    @staticmethod
    def _run(*arguments):
        subprocess.run([OPENSSL, *map(str, arguments)], check=True, capture_output=True, stdin=subprocess.DEVNULL)

    def issue(self, name, host="localhost", address="127.0.0.1", days=1):
        """A certificate and its key; days < 0: it has expired."""
        base = self.folder / f"{self.name}-{name}"
        self._run("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{base}.key", "-out",
                  f"{base}.csr", "-subj", f"/CN={name}")
        extensions = pathlib.Path(f"{base}.ext")
        extensions.write_text(f"subjectAltName=DNS:{host},IP:{address}\n")
        self._run("x509", "-req", "-in", f"{base}.csr", "-CA", self.file, "-CAkey", self.folder / f"{self.name}.key", "-CAcreateserial",
                  "-out", f"{base}.pem", "-days", str(days), "-extfile", extensions)
        return f"{base}.pem", f"{base}.key"


class SecureServer(Server):
    """Asked over HTTPS where it has a certificate."""

    context = None

    @property
    def http(self):
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.http_port}"

    def start(self):
        if self.context is None:
            return super().start()
        urllib.request.install_opener(urllib.request.build_opener(urllib.request.HTTPSHandler(context=self.context)))
        return super().start()


class SecurityCase(Case):
    def setUp(self):
        super().setUp()
        self.tokens = self.folder / "tokens.json"
        self.secrets = []
        self.said = []  # all that was printed
        self.addCleanup(urllib.request.install_opener, urllib.request.build_opener())

    def token(self, *scopes, limits=(), **more):
        """Makes one; returns the file that holds it, and its id."""
        file = self.folder / f"token{len(self.secrets)}"
        command = [BIN / "scalewatch", "admin", "token", "create", "--file", self.tokens, "--name", "test", "--out", file]
        for scope in scopes:
            command += ["--scope", scope]
        for limit in limits:
            command += ["--limit", limit]
        for name, value in more.items():
            command += [f"--{name}", value]
        subprocess.run(command, check=True, capture_output=True, timeout=30)
        text = file.read_text().strip()
        self.secrets.append(text)
        return file, text.split("_")[1]

    def secure(self, settings=(), context=None, environment=None):
        folder = self.folder / f"server{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        server = SecureServer(folder, (), settings)
        server.context = context
        server.environment = environment or {}
        self._stack.callback(self._end_server, server)
        return server.start()

    def with_tokens(self, *settings):
        return self.secure([f"auth.tokens_file={self.tokens}", f"auth.audit_log={self.folder / 'audit.jsonl'}", *settings])

    def command(self, server, token, *arguments, options=(), address=None):
        """Exit status and all that was printed."""
        line = [str(BIN / "scalewatch"), "--server", address or server.address, *options, *arguments]
        if token:
            line[1:1] = ["--token-file", str(token)]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.said.append(done.stdout + done.stderr)
        return done.returncode, done.stdout + done.stderr

    def train(self, server, run, environment, address=None):
        """The demo with the client library: a few hundred steps. Returns what it printed."""
        command = self.demo_command(server, "healthy", "--run", run, "--steps", "60")
        if address:
            command[command.index("--server") + 1] = address
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
                              env={**os.environ, **{key: str(value) for key, value in environment.items()}})
        self.said.append(done.stdout + done.stderr)
        return done.stdout + done.stderr

    def ask(self, server, path, token=None, data=None):
        """Status and body over HTTP."""
        request = urllib.request.Request(server.http + path, data=data, headers={"Content-Type": "application/json"})
        if token:
            request.add_header("Authorization", "Bearer " + pathlib.Path(token).read_text().strip())
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                body = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            body = error.code, error.read().decode()
        self.said.append(body[1])
        return body

    def refusals(self, server, token, cause):
        """How many were turned away for this cause, by /metrics."""
        page = self.ask(server, "/metrics", token)[1]
        return int(float(re.search(rf'^scalewatch_refusals_total{{cause="{cause}"}} (\S+)$', page, re.M).group(1)))

    def assert_no_secret_was_told(self, server):
        texts = self.said + [server.log_path.read_text(errors="replace"), self.tokens.read_text()]
        audit = self.folder / "audit.jsonl"
        texts.append(audit.read_text() if audit.exists() else "")
        for secret in self.secrets:
            for text in texts:
                self.assertNotIn(secret.split("_")[2], text)


class _Token(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Shows a token with every call."""

    def __init__(self, token):
        self._token = token

    def _with_token(self, details):
        class Details(grpc.ClientCallDetails):
            method, timeout, credentials = details.method, details.timeout, details.credentials
            wait_for_ready, compression = details.wait_for_ready, details.compression
            metadata = [*(details.metadata or ()), ("authorization", "Bearer " + self._token)]
        return Details()

    def intercept_unary_unary(self, continuation, details, request):
        return continuation(self._with_token(details), request)

    intercept_unary_stream = intercept_unary_unary

    def intercept_stream_stream(self, continuation, details, requests):
        return continuation(self._with_token(details), requests)


class GuardedClient(Client):
    """A client that brings a token, and knows the messages from proto/: a server with tokens has no reflection."""

    def __init__(self, address, token, **channel):
        super().__init__(address, **channel)
        if token is not None:
            self.channel = grpc.intercept_channel(self.channel, _Token(pathlib.Path(token).read_text().strip()))
        done = subprocess.run([need("protoc"), f"-I{ROOT}/proto", "--include_imports", "--descriptor_set_out=/dev/stdout",
                               *sorted(str(path) for path in (ROOT / "proto").rglob("*.proto"))], check=True, capture_output=True)
        for file in descriptor_pb2.FileDescriptorSet.FromString(done.stdout).file:
            self._pool.Add(file)

    def read(self, name, timeout=60, **fields):
        """A call that is answered by a stream; nothing is read before the caller does."""
        method = self.method(name)
        call = self.channel.unary_stream("/" + name, request_serializer=lambda message: message.SerializeToString(),
                                         response_deserializer=self.message(method.output_type.full_name).FromString)
        return call(self.message(method.input_type.full_name)(**fields), timeout=timeout)
