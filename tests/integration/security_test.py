"""Who may talk to the server: real certificates, real tokens, and somebody who has neither."""
import json
import os
import pathlib
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from harness import BIN, Case, Server, get, main, need, wait_for

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

    def assert_no_secret_was_told(self, server):
        texts = self.said + [server.log_path.read_text(errors="replace"), self.tokens.read_text()]
        audit = self.folder / "audit.jsonl"
        texts.append(audit.read_text() if audit.exists() else "")
        for secret in self.secrets:
            for text in texts:
                self.assertNotIn(secret.split("_")[2], text)


class TokensTest(SecurityCase):
    def test_scopes_and_patterns(self):
        sender, _ = self.token("ingest:team-a/*")
        reader, _ = self.token("read:team-a/*")
        operator, _ = self.token("operate", "read")
        server = self.with_tokens()
        self.train(server, "team-a/one", {"SCALEWATCH_TOKEN_FILE": sender})
        self.assertIn("team-a/one", wait_for("the run", lambda: self.command(server, reader, "runs")[1]))
        # Another run, no token, a token that may only send: none of them gets in.
        self.assertIn("may not send run team-b/one", self.train(server, "team-b/one", {"SCALEWATCH_TOKEN_FILE": sender}))
        self.assertIn("token", self.train(server, "team-a/two", {}))
        self.assertNotEqual(self.command(server, None, "runs")[0], 0)
        self.assertNotEqual(self.command(server, sender, "runs")[0], 0)
        code, text = self.command(server, operator, "runs")
        self.assertEqual(code, 0)
        self.assertNotIn("team-b", text)
        self.assertNotIn("team-a/two", text)
        # HTTP alike.
        self.assertEqual(self.ask(server, "/healthz")[0], 200)
        self.assertEqual(self.ask(server, "/metrics")[0], 401)
        self.assertEqual(self.ask(server, "/metrics", reader)[0], 403)
        self.assertEqual(self.ask(server, "/metrics", operator)[0], 200)
        self.assertEqual(self.ask(server, "/api/v1/runs")[0], 401)
        self.assertEqual(self.ask(server, "/api/v1/runs/team-b%2Fone", reader)[0], 403)
        self.assertEqual(self.ask(server, "/api/v1/runs/team-a%2Fone", reader)[0], 200)
        self.assertEqual(self.ask(server, "/api/v1/table/runs/team-a%2Fone/tensors", sender)[0], 403)
        silence = json.dumps({"matchers": ["run=\"team-a/one\""], "duration_ms": 60000, "who": "me", "reason": "test"}).encode()
        self.assertEqual(self.ask(server, "/api/v1/silences", reader, silence)[0], 403)
        self.assertEqual(self.ask(server, "/api/v1/silences", operator, silence)[0], 200)
        self.assertNotEqual(self.command(server, operator, "alerts", "test")[0], 0)  # takes admin
        lines = [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]
        self.assertEqual([(line["call"], line["result"]) for line in lines if line["call"] == "CreateSilence"],
                         [("CreateSilence", "PERMISSION_DENIED"), ("CreateSilence", "OK")])
        self.assert_no_secret_was_told(server)

    def test_guessers_wait(self):
        token, _ = self.token("read")
        server = self.with_tokens()
        wrong = self.folder / "wrong"
        text = token.read_text().strip()
        wrong.write_text(text[:-1] + ("a" if text[-1] != "a" else "b"))
        statuses = [self.ask(server, "/api/v1/runs", wrong)[0] for _ in range(7)]
        self.assertEqual(statuses[:5], [401] * 5)
        self.assertIn(429, statuses[5:])
        for header in ("Bearer", "Bearer swt_", "Basic eDp5", "Bearer " + "a" * 4000, "Bearer ../../etc/passwd"):
            request = urllib.request.Request(server.http + "/api/v1/runs", headers={"Authorization": header})
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=10)
            self.assertIn(refused.exception.code, (401, 429))
            refused.exception.close()
        self.assert_no_secret_was_told(server)

    def test_revoked_while_streaming(self):
        sender, sender_id = self.token("ingest")
        reader, reader_id = self.token("read")
        server = self.with_tokens()
        trainer = subprocess.Popen(self.demo_command(server, "healthy", "--run", "r", "--steps", "100000"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "SCALEWATCH_TOKEN_FILE": str(sender)})
        self._stack.callback(trainer.stderr.close)
        self._stack.callback(trainer.wait)
        self._stack.callback(trainer.kill)
        wait_for("the run", lambda: self.command(server, reader, "show", "r")[0] == 0)
        tail = subprocess.Popen([str(BIN / "scalewatch"), "--server", server.address, "--token-file", str(reader), "tail", "r"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._stack.callback(tail.wait)
        self._stack.callback(tail.kill)
        for identity in (sender_id, reader_id):
            subprocess.run([BIN / "scalewatch", "admin", "token", "revoke", "--file", self.tokens, identity], check=True, capture_output=True,
                           timeout=30)
        self.assertIn("revoked", tail.communicate(timeout=30)[1])
        self.assertIn("revoked", trainer.stderr.readline())
        self.assertNotEqual(self.command(server, reader, "runs")[0], 0)
        self.assert_no_secret_was_told(server)


class TlsTest(SecurityCase):
    @staticmethod
    def refusal(server):
        """Why a client refuses the server's certificate over HTTPS."""
        try:
            get(server.http + "/healthz")
            return ""
        except OSError as error:
            return str(error)

    def test_certificates_and_their_renewal(self):
        authority = Authority(self.folder, "authority")
        other = Authority(self.folder, "other")
        certificate, key = authority.issue("server")
        client = authority.issue("client")
        token, _ = self.token("admin")
        context = ssl.create_default_context(cafile=authority.file)
        context.load_cert_chain(*client)
        server = self.secure([f"auth.tokens_file={self.tokens}", f"tls.certificate={certificate}", f"tls.key={key}",
                              f"tls.client_ca={authority.file}"], context)

        def options(ca=authority.file, shown=client):
            return ["--ca-file", str(ca), *(["--cert-file", shown[0], "--key-file", shown[1]] if shown else [])]

        def runs(**chosen):
            return self.command(server, token, "runs", options=options(**chosen))[0]

        (self.folder / "kept.pem").write_bytes(authority.file.read_bytes())
        self.assertEqual(runs(), 0)
        self.assertNotEqual(runs(ca=other.file), 0)            # not the authority of the server
        self.assertNotEqual(runs(shown=None), 0)               # no certificate of the client
        self.assertNotEqual(runs(shown=other.issue("x")), 0)   # of another authority
        self.assertNotEqual(self.command(server, None, "runs")[0], 0)  # no TLS
        environment = {"SCALEWATCH_TOKEN_FILE": token, "SCALEWATCH_CA_FILE": authority.file, "SCALEWATCH_CERT_FILE": client[0],
                       "SCALEWATCH_KEY_FILE": client[1]}
        self.train(server, "encrypted", environment)
        self.assertEqual(self.ask(server, "/api/v1/runs/encrypted", token)[0], 200)
        bare = ssl.create_default_context(cafile=authority.file)
        with self.assertRaises((OSError, urllib.error.URLError)):
            urllib.request.urlopen(urllib.request.Request(server.http + "/healthz"), timeout=10, context=bare)

        def renew(made):
            for old, new in ((key, made[1]), (certificate, made[0])):
                os.replace(new, old)

        # A certificate with another name, then one that has expired: taken without a restart, and refused by clients.
        renew(authority.issue("wrong-name", "elsewhere", "127.9.9.9"))
        wait_for("the other name", lambda: runs() != 0)
        renew(authority.issue("expired", days=-1))
        wait_for("the expired one", lambda: "expired" in self.refusal(server))
        self.assertNotEqual(runs(), 0)
        renew(authority.issue("renewed"))
        wait_for("the renewed one", lambda: runs() == 0 and self.ask(server, "/healthz")[0] == 200)
        # Half a renewal: the server keeps what it has over HTTP, and says what is wrong.
        old = pathlib.Path(certificate).read_bytes()
        pathlib.Path(certificate).write_text("broken")
        wait_for("a word about it", lambda: "keeps the certificates" in server.log())
        self.assertEqual(self.ask(server, "/healthz")[0], 200)
        pathlib.Path(certificate).write_bytes(old)
        # Clients are believed by another authority now: the old certificates are worth nothing.
        os.replace(other.file, authority.file)
        wait_for("the other authority", lambda: runs(ca=self.folder / "kept.pem") != 0)
        self.assert_no_secret_was_told(server)

    def test_a_token_is_not_sent_in_the_clear(self):
        token, _ = self.token("read")
        code, text = self.command(None, token, "runs", address="192.0.2.1:7462")
        self.assertEqual(code, 64)
        self.assertIn("without encryption", text)
        done = subprocess.run([BIN / "scalewatchd", "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0", "--set",
                               f"auth.tokens_file={self.tokens}"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not encrypted", done.stderr)


class InjectionTest(SecurityCase):
    """A name that means something everywhere is a name everywhere."""

    NAME = "=cmd|'/C calc'!A0,\"};<script>alert(1)</script>'; DROP TABLE runs;--$(touch injected)`touch injected`${x}\\n../../etc: {a: b}\u202e"

    def test_a_run_of_that_name(self):
        sink = self.sink()
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": sink.url, "min_severity": "info"}])
        self.train(server, self.NAME, {})
        path = urllib.parse.quote(self.NAME, safe="")
        wait_for("the run", lambda: server.api(f"runs/{path}")["run"]["name"] == self.NAME)
        self.assertEqual([run["name"] for run in server.api("runs")["runs"]], [self.NAME])  # JSON, and SQL that kept its tables
        self.assertIsInstance(server.api(f"table/runs/{path}/tensors"), list)
        labels = [line for line in get(server.http + "/metrics").splitlines() if "scalewatch_run" in line and "alert(1)" in line]
        escaped = self.NAME.replace("\\", "\\\\").replace('"', '\\"')
        for line in labels:
            self.assertIn('run="' + escaped + '"', line)
        self.assertTrue(labels)
        csv = server.cli("export", self.NAME, "--format", "csv")[1]
        self.assertFalse([line for line in csv.splitlines() if line.startswith("=") or ",=" in line])
        html = server.cli("report", self.NAME)[1]
        self.assertNotIn("<script>alert(1)", html)
        for shown in (server.cli("runs")[1], server.cli("show", self.NAME)[1], server.log()):
            self.assertNotIn("\u202e", shown)
            self.assertNotIn("\x1b", shown)
        # Programs run in this folder.
        self.assertFalse(pathlib.Path("injected").exists(), "a shell ran what stands in a name")
        for odd in ("%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%2F..%2Fhistory.db", "%00", "%ff"):
            self.assertIn(self.ask(server, f"/api/v1/runs/{odd}")[0], (400, 404))


if __name__ == "__main__":
    main()
