"""Who may talk to the server: real certificates, real tokens, and somebody who has neither."""
import http.server
import json
import os
import pathlib
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request

from guarded import Authority, SecurityCase
from harness import BIN, ROOT, get, main, wait_for


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

    def test_half_a_renewal_breaks_no_handshake(self):
        """The certificate first, its key later, as programs do that copy one file after the other: what was there serves until both are."""
        authority = Authority(self.folder, "authority")
        certificate, key = authority.issue("server")
        new = authority.issue("next")
        token, _ = self.token("admin")
        server = self.secure([f"auth.tokens_file={self.tokens}", f"tls.certificate={certificate}", f"tls.key={key}"],
                             ssl.create_default_context(cafile=authority.file))

        def shown(port):
            return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port)))

        def works():
            return (self.command(server, token, "runs", options=["--ca-file", str(authority.file)])[0] == 0
                    and self.ask(server, "/healthz")[0] == 200)

        old, made = (ssl.PEM_cert_to_DER_cert(pathlib.Path(path).read_text()) for path in (certificate, new[0]))
        for first, second in ((0, 1), (1, 0)):
            os.replace(new[first], (certificate, key)[first])
            wait_for("a word about it", lambda: "keeps the certificates" in server.log())
            for port in (server.grpc_port, server.http_port):
                self.assertEqual(shown(port), old)
            self.assertTrue(works())
            os.replace(new[second], (certificate, key)[second])
            wait_for("both", lambda: shown(server.http_port) == made and shown(server.grpc_port) == made)
            self.assertTrue(works())
            server.log_path.write_text("")
            new = authority.issue("again")
            old, made = made, ssl.PEM_cert_to_DER_cert(pathlib.Path(new[0]).read_text())

    def test_a_token_is_not_sent_in_the_clear(self):
        token, _ = self.token("read")
        code, text = self.command(None, token, "runs", address="192.0.2.1:7462")
        self.assertEqual(code, 64)
        self.assertIn("without encryption", text)
        done = subprocess.run([BIN / "scalewatchd", "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0", "--set",
                               f"auth.tokens_file={self.tokens}"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not encrypted", done.stderr)


TRAINER = """
import sys, threading, time, scalewatch
from scalewatch.answers import Questions, ServerError
watch = scalewatch.Watch("python", compute_dtype="float32")
threading.Thread(target=lambda: print(watch.wait_durable(60), flush=True)).start()
step = 0
while step < 100000:
    step += 1
    watch.begin(step)
    watch.set_loss(1.0 / step)
    watch.end()
    if step % 20 == 0:
        try:
            print(int(watch.questions.summary()["attempts"]), flush=True)
        except ServerError as error:
            print("refused:", error, flush=True)
            if "token" in str(error):
                break
    time.sleep(0.001)
print("still training", flush=True)
"""


class PythonTest(SecurityCase):
    def python(self, server, code, environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SCALEWATCH_")}
        process = subprocess.Popen([sys.executable, "-B", "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env={**clean, "PYTHONPATH": str(ROOT / "client_lib/python"),
                                                   "SCALEWATCH_LIBRARY_DIR": str(BIN.parent / "lib"),
                                                   "SCALEWATCH_SERVER": server.address, "SCALEWATCH_HTTP": server.http,
                                                   **{key: str(value) for key, value in environment.items()}})
        for end in (process.stderr.close, process.stdout.close, process.wait, process.kill):
            self._stack.callback(end)
        return process

    def test_over_https_with_a_token_until_it_is_revoked(self):
        authority, other = Authority(self.folder, "authority"), Authority(self.folder, "other")
        certificate, key = authority.issue("server")
        token, identity = self.token("ingest:python", "read:python")
        server = self.secure([f"auth.tokens_file={self.tokens}", f"tls.certificate={certificate}", f"tls.key={key}"],
                             ssl.create_default_context(cafile=authority.file))
        environment = {"SCALEWATCH_TOKEN_FILE": token, "SCALEWATCH_CA_FILE": authority.file}
        trainer = self.python(server, TRAINER, environment)
        lines = iter(trainer.stdout.readline, "")
        said = [next(line for line in lines if line.strip().isdigit() and int(line) > 0)]  # it streams, and is answered
        subprocess.run([BIN / "scalewatch", "admin", "token", "revoke", "--file", self.tokens, identity], check=True, capture_output=True,
                       timeout=30)
        said += list(lines)
        self.assertEqual(said[-1], "still training\n", said[-5:])
        self.assertIn("this token is not known here, was revoked, or has expired", said[-2])
        warned = trainer.stderr.read()
        self.assertIn("revoked", warned)
        self.said += [*said, warned]
        # Whom this side does not believe gets no token, and says so.
        again, _ = self.token("read:python")
        for changed, words in (({"SCALEWATCH_CA_FILE": other.file}, "certificate verify failed"), ({"SCALEWATCH_CA_FILE": self.folder / "none"}, "none")):
            asked = self.python(server, "from scalewatch.answers import Questions\nprint(Questions('python').summary())",
                                {**environment, "SCALEWATCH_TOKEN_FILE": again, **changed})
            out, err = asked.communicate(timeout=60)
            self.assertEqual((asked.returncode, out), (1, ""))
            self.assertIn(words, err.splitlines()[-1])
            self.said.append(err)
        self.assert_no_secret_was_told(server)


class HooksTest(SecurityCase):
    """Whoever may write a sink's address can't make the server speak to what only it reaches."""

    def test_names_and_redirects_that_lead_to_this_machine(self):
        names = [name for line in pathlib.Path("/etc/hosts").read_text().splitlines() for name in line.split("#")[0].split()[1:]
                 if line.startswith("127.") and not name.startswith("localhost")]
        if not names:
            self.skipTest("/etc/hosts gives this machine's loopback no other name than localhost")
        hit, sends_on = self.sink(), Redirect()
        self.addCleanup(sends_on.close)
        sends_on.location = hit.url
        port = hit.url.split(":")[2]
        server = self.server(sinks=[{"name": "name", "type": "webhook", "url": f"http://{names[0]}:{port}"},
                                    {"name": "redirect", "type": "webhook", "url": sends_on.url}])
        told = json.loads(server.cli("--json", "alerts", "test", check=False)[1])
        errors = {each["sink"]: each.get("error", "") for each in told["sinks"]}
        self.assertIn(f"where host {names[0]} leads is this machine itself", errors["name"])
        self.assertIn("302", json.dumps(told))
        self.assertEqual((sends_on.asked, hit.requests), (1, []))
        done = subprocess.run([BIN / "scalewatchd", "--check", "--config", self.config("http://169.254.169.254/latest/meta-data")],
                              capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("link-local", done.stderr)

    def config(self, url):
        path = self.folder / "sink.yaml"
        path.write_text(f"alerting:\n  sinks:\n    - {{name: a, type: webhook, url: '{url}'}}\n")
        return path


class Redirect:
    """Sends whoever posts to it on to `location`."""

    location, asked = "", 0

    def __init__(self):
        sender = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                sender.asked += 1
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(302)
                self.send_header("Location", sender.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


if __name__ == "__main__":
    main()
