"""An alert's life for the on-call: silences, test pages, the audit trail, secrets and signatures, over a restart."""
import hashlib
import hmac
import json
import os
import stat

from harness import Case, main, wait_for
from mailbox_stub import Mailbox


class AlertsLife(Case):
    def secret(self, name, text):
        path = self.folder / name
        path.write_text(text + "\n")
        return path

    def test_every_sink_is_tested_and_none_sees_another_ones_secret(self):
        hook, slack, pager, mailbox = self.sink(), self.sink(), self.sink(), Mailbox()
        self.addCleanup(mailbox.close)
        program = self.folder / "page"
        program.write_text(f"#!/bin/sh\ncat > {self.folder}/paged\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        key = self.secret("hmac", "shared")
        os.environ["SCALEWATCH_TEST_ROUTING"] = "R0UT1NG"
        self.addCleanup(os.environ.pop, "SCALEWATCH_TEST_ROUTING")
        server = self.server(sinks=[
            {"name": "hook", "type": "webhook", "url": hook.url, "key_file": key,
             "headers": f"{{Authorization: {{file: {self.secret('token', 't0ken')}, prefix: 'Bearer '}}}}"},
            {"name": "chat", "type": "slack", "url_file": self.secret("slack", slack.url)},
            {"name": "pager", "type": "pagerduty", "url": pager.url, "key_env": "SCALEWATCH_TEST_ROUTING"},
            {"name": "mail", "type": "email", "url": mailbox.url, "from": "s@example.org", "to": "[a@example.org]", "tls": "false"},
            {"name": "tls", "type": "email", "url": mailbox.url, "from": "s@example.org", "to": "[a@example.org]"},
            {"name": "script", "type": "command", "command": f"[{program}]"},
            {"name": "gone", "type": "webhook", "url": "http://127.0.0.1:9/"}])
        status, out, _ = server.cli("--json", "alerts", "test", check=False)
        told = {each["sink"]: each for each in json.loads(out)["sinks"]}
        self.assertEqual(status, 1)
        self.assertEqual({name for name, each in told.items() if each["delivered"]}, {"hook", "chat", "pager", "mail", "script"}, told)
        self.assertTrue(told["gone"]["error"])
        self.assertTrue(told["tls"]["error"])  # a relay without STARTTLS gets nothing in clear
        self.assertEqual(len(mailbox.mails), 1)

        _, headers, body = hook.requests[0]
        self.assertEqual(body["transition"], "test")
        self.assertEqual(headers["Authorization"], "Bearer t0ken")
        seconds, signature = (part.split("=")[1] for part in headers["Scalewatch-Signature"].split(","))
        signed = f"{seconds}.".encode() + json.dumps(body, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()
        self.assertEqual(signature, hmac.new(b"shared", signed, hashlib.sha256).hexdigest())
        self.assertEqual(pager.bodies()[0]["routing_key"], "R0UT1NG")
        self.assertIn("TEST", slack.bodies()[0]["text"])
        self.assertEqual(json.loads((self.folder / "paged").read_text())["rule"], "ScalewatchTest")
        for secret in ("t0ken", "shared", "R0UT1NG"):
            self.assertNotIn(secret, server.log() + out)
        self.assertEqual(server.cli("alerts", "test", "--sink", "chat", "--severity", "info")[0], 0)
        self.assertEqual(server.cli("alerts", "test", "--sink", "nobody", check=False)[0], 3)

    def test_a_silence_holds_pages_back_over_a_restart_and_its_end_brings_them(self):
        hook = self.sink()
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": hook.url}])
        made = server.cli_json("alerts", "silence", 'run=~"qui.*"', "--for", "2h", "--reason", "known", "--by", "ada")["silence"]
        trainer = self.spawn(self.demo_command(server, "hot", "--run", "quiet", "--steps", "20000"))

        def alerts():
            return {a["finding"]["rule"]: a for a in server.cli_json("alerts", "--run", "quiet")["alerts"]}

        found = wait_for("an alert", lambda: alerts() if "NonFiniteLoss" in alerts() else None)["NonFiniteLoss"]
        self.assertEqual(found["state"], "ALERT_STATE_SILENCED")
        self.assertEqual(found["silence"]["created_by"], "ada")
        self.assertEqual(found["labels"]["trainer"], "scalewatch-demo")
        self.assertIn("silenced by ada until", server.cli("alerts", "--run", "quiet")[1])
        server.kill()
        server.start()
        self.assertEqual([s["id"] for s in server.cli_json("alerts", "silences")["silences"]], [made["id"]])
        wait_for("the run to go on", lambda: int(server.api("runs/quiet")["run"]["attempts"]) > int(found["finding"]["last_attempt"]))
        self.assertEqual(hook.bodies(), [])

        server.cli("alerts", "unsilence", made["id"], "--by", "bob")
        page = wait_for("the page", lambda: next(b for b in hook.bodies() if b["rule"] == "NonFiniteLoss"))
        self.assertEqual((page["transition"], page["run"]), ("firing", "quiet"))
        server.cli("alerts", "ack", page["alert_id"], "--who", "eve", "--comment", "on it")
        trainer.terminate()
        self.assertEqual(trainer.wait(60), 0)
        wait_for("the resolve", lambda: [b for b in hook.bodies()
                                         if (b["alert_id"], b["transition"]) == (page["alert_id"], "resolved")])
        shown = server.cli_json("alerts", "show", page["alert_id"])["alert"]
        trail = [(t["who"], t["state"].removeprefix("ALERT_STATE_").lower()) for t in shown["trail"] if not t["what"].startswith("now ")]
        self.assertEqual(trail[:3], [("", "firing"), ("ada", "silenced"), ("", "firing")], shown["trail"])
        self.assertIn(("eve", "acknowledged"), trail[3:])
        self.assertEqual(trail[-1], ("", "resolved"))
        text = server.cli("alerts", "show", page["alert_id"])[1]
        for words in ("no longer silenced", "on it, by eve", "hook +firing +delivered"):
            self.assertRegex(text, words)
        self.assertEqual(server.cli_json("alerts", "silences", "--all")["silences"][0]["ended_by"], "bob")
        self.assertEqual(server.cli("alerts", "unsilence", made["id"], "--by", "bob", check=False)[0], 3)
        self.assertEqual(server.cli("alerts", "silence", "x", "--for", "1h", "--reason", "r", check=False)[0], 64)


    def test_a_run_that_never_comes_back_is_let_go_of_over_a_restart(self):
        hook = self.sink()
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": hook.url}],
                             settings=["rules.rank_lost_after=2s", "rules.rank_alive_within=1s", "rules.run_gone_after=8s"])
        trainer = self.spawn(self.demo_command(server, "no-update", "--run", "gone", "--steps", "100000", "--step-ms", "2"))

        def told(transition):
            return [body["alert_id"] for _, _, body in list(hook.requests) if body["transition"] == transition]

        wait_for("a page", lambda: told("firing"))
        trainer.kill()
        trainer.wait()
        wait_for("the loss", lambda: server.api("runs/gone")["run"]["status"] == "RUN_STATUS_LOST")
        self.assertEqual(told("resolved"), [])
        server.stop()
        server.start()  # a lost run is not read back, but looked at once a minute
        wait_for("the resolves", lambda: len(told("resolved")) >= len(set(told("firing"))), 120)
        alerts = server.cli_json("alerts", "--all", "--run", "gone")["alerts"]
        self.assertEqual({alert["state"] for alert in alerts}, {"ALERT_STATE_RESOLVED"})
        self.assertEqual({alert["trail"][-1]["what"] for alert in alerts}, {"resolved: the run is gone: nothing was heard of it for 8 s"})
        self.assertEqual(set(told("resolved")), set(told("firing")))
        self.assertEqual(len(told("resolved")), len(set(told("resolved"))))


if __name__ == "__main__":
    main()
