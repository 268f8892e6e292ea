"""Deliveries that are cut: kill -9 at every point of one, pages that are given up and sent again, the Watchdog, refused hosts."""
import collections
import http.server
import json
import os
import sqlite3
import subprocess
import threading

from harness import Case, free_port, main, wait_for


class Receiver:
    """A webhook that keeps every key. Each request takes the next step of `plan`, when there is one and the request is of its
    transition (None: any): a function that is given the handler and answers, or does not."""

    def __init__(self, port):
        self.requests = []  # (key, body)
        self.plan = []  # (transition, step)
        self._lock = threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                with receiver._lock:
                    receiver.requests.append((self.headers.get("Idempotency-Key"), body))
                    due = receiver.plan and receiver.plan[0][0] in (None, body["transition"])
                    step = receiver.plan.pop(0)[1] if due else Handler.answer
                step(self)

            def answer(self):
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()
                self.wfile.flush()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # killed senders break their connections
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def keys(self, transition):
        """By alert, the distinct keys of a transition."""
        out = collections.defaultdict(set)
        with self._lock:
            for key, body in self.requests:
                if body["transition"] == transition:
                    out[body["alert_id"]].add(key)
        return out

    def bodies(self):
        with self._lock:
            return [body for _, body in self.requests]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class AlertsDelivery(Case):
    def receiver(self, port):
        receiver = Receiver(port)
        self.addCleanup(receiver.close)
        return receiver

    def killing(self, server, answers):
        """A step that kills the server before its answer, or right after it; and an event for when that is done."""
        done = threading.Event()

        def step(handler):
            if answers:
                handler.answer()
            server.kill()
            done.set()
            handler.close_connection = True

        return step, done

    def launch(self, server):
        """Starts it again without waiting for it: it may be killed at once."""
        server.process = self.spawn(server.command())

    def told(self, server, run):
        return {d["key"]: d for a in server.cli_json("alerts", "--run", run, "--all")["alerts"] for d in a["deliveries"]}

    def test_one_key_a_firing_and_a_resolve_wherever_the_server_is_killed(self):
        port = free_port()
        # Outcomes become durable late, so that a kill right after an answer comes before its mark.
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": f"http://127.0.0.1:{port}/hook", "min_severity": "info"}],
                             settings=["engine.commit_delay=400ms"])
        trainer = self.spawn(self.demo_command(server, "hot", "--run", "cut", "--steps", "200000"))
        # Queued, and nobody there.
        wait_for("a try that failed", lambda: any(d["tries"] > 0 for d in self.told(server, "cut").values()))
        server.kill()
        receiver = self.receiver(port)

        def cut(*answers):
            for answered in answers:
                step, done = self.killing(server, answered)
                receiver.plan = [(None, step)]
                self.launch(server)
                self.assertTrue(done.wait(60))
                server.kill()  # where the step met a message of the server before

        cut(False, True)  # sent and not answered; answered and not marked
        server.start()
        wait_for("every firing marked", lambda: len(self.told(server, "cut")) >= 3 and all(
            d["delivered"] for d in self.told(server, "cut").values()))
        ids = {key.rsplit("/", 1)[0] for key in self.told(server, "cut")}
        server.kill()  # marked
        before = len(receiver.requests)
        server.start()
        marked = {key for key, _ in receiver.requests[:before]}

        attempts = int(server.api("runs/cut")["run"]["attempts"])
        wait_for("the run to go on", lambda: int(server.api("runs/cut")["run"]["attempts"]) > attempts)
        # The first resolve is held until the goodbye is durable: a run that ends without one keeps its alerts.
        ended, held = threading.Event(), threading.Event()

        def hold(handler):
            held.set()
            ended.wait(120)
            handler.close_connection = True

        receiver.plan = [("resolved", hold)]
        trainer.terminate()
        self.assertEqual(trainer.wait(120), 0)
        self.assertTrue(held.wait(60))
        server.kill()  # sent and not answered
        ended.set()
        step, done = self.killing(server, True)
        receiver.plan = [("resolved", step)]
        self.launch(server)
        self.assertTrue(done.wait(60))  # answered and not marked
        server.kill()
        server.start()
        wait_for("every resolve", lambda: ids <= set(receiver.keys("resolved")))
        wait_for("everything marked", lambda: all(d["delivered"] for d in self.told(server, "cut").values()))

        for transition in ("firing", "resolved"):
            for alert, keys in receiver.keys(transition).items():
                self.assertEqual(keys, {f"{alert}/{transition}"})
        self.assertEqual(set(receiver.keys("firing")), set(receiver.keys("resolved")))
        # What was marked was not sent again.
        late = [key for key, body in receiver.requests[before:] if body["transition"] == "firing"]
        self.assertFalse(marked & set(late), late)

    def test_a_damaged_page_is_a_dead_letter_over_restarts_and_is_sent_when_it_is_whole(self):
        port = free_port()
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": f"http://127.0.0.1:{port}/T0KEN", "min_severity": "info"}])
        trainer = self.spawn(self.demo_command(server, "hot", "--run", "torn", "--steps", "200000"))
        key = wait_for("a page that failed", lambda: next(k for k, d in self.told(server, "torn").items() if d["tries"] > 0))
        trainer.kill()
        self.assertEqual(server.stop(), 0)

        def store(sql, *values):
            with sqlite3.connect(server.history) as connection:
                rows = connection.execute(sql, values).fetchall()
            connection.close()
            return rows

        whole = store("SELECT alert FROM outbox WHERE key = ?", key)[0][0]
        # One bit of a text: it still reads as an alert.
        at = whole.index(b"torn")
        store("UPDATE outbox SET alert = ? WHERE key = ?", whole[:at] + b"uorn" + whole[at + 4:], key)
        server.start()
        letter = wait_for("the dead letter", lambda: server.cli_json("alerts", "dead")["letters"])[0]
        self.assertEqual((letter["key"], letter["sink"]), (key, "hook"))
        self.assertIn("damaged", letter["last_error"])
        self.assertIn(key, server.cli("alerts", "dead", "--sink", "hook")[1])
        self.assertEqual(server.stop(), 0)
        store("UPDATE outbox SET alert = ? WHERE key = ?", whole, key)
        server.start()
        self.assertEqual([each["key"] for each in server.api("alerts/dead")["letters"]], [key])
        receiver = self.receiver(port)
        self.assertEqual(server.cli("alerts", "replay", "nobody", check=False)[0], 3)
        self.assertEqual(server.cli_json("alerts", "replay", key, "--by", "ada")["replayed"], 1)
        wait_for("the page", lambda: key in {k for k, _ in receiver.requests})
        wait_for("no dead letters", lambda: not server.cli_json("alerts", "dead")["letters"])
        self.assertNotIn("T0KEN", server.log_path.read_text())

    def test_the_watchdog_comes_at_once_and_pagerduty_hears_who_is_on_it(self):
        hook, pager = self.sink(), self.sink()
        os.environ["SCALEWATCH_TEST_ROUTING"] = "0123456789abcdef0123456789abcdef"
        self.addCleanup(os.environ.pop, "SCALEWATCH_TEST_ROUTING")
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": hook.url, "watchdog": "10s"},
                                    {"name": "pager", "type": "pagerduty", "url": pager.url, "key_env": "SCALEWATCH_TEST_ROUTING"}])
        body = wait_for("the Watchdog", lambda: hook.bodies()[0])
        self.assertEqual((body["rule"], body["transition"], body["severity"]), ("Watchdog", "watchdog", "info"))
        self.spawn(self.demo_command(server, "hot", "--run", "taken", "--steps", "200000"))
        trigger = wait_for("the incident", lambda: pager.bodies()[0])
        self.assertEqual(trigger["event_action"], "trigger")
        for _ in range(2):
            server.cli("alerts", "ack", trigger["dedup_key"], "--who", "eve")
        events = wait_for("the acknowledgement", lambda: [b for b in pager.bodies() if b["event_action"] == "acknowledge"])
        self.assertEqual([(e["dedup_key"], set(e)) for e in events],
                         [(trigger["dedup_key"], {"routing_key", "event_action", "dedup_key"})])

    def test_hosts_that_are_not_allowed_are_refused_before_the_start(self):
        for url, hosts, word in (("http://169.254.169.254/T0KEN", "", "link-local"), ("http://h.example.org/T0KEN", "*.example.com", "allowed_hosts"),
                                 ("http://[fe80::1]/T0KEN", "", "link-local")):
            server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": f"'{url}'"}], settings=[f"alerting.allowed_hosts={hosts}"],
                                 start=False)
            done = subprocess.run(server.command("--check"), capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)
            self.assertIn("sink 'hook'", done.stderr)
            self.assertNotIn("T0KEN", done.stderr)


if __name__ == "__main__":
    main()
