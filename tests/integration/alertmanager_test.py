"""Debian's Alertmanager receives an alert and its resolve, and passes both on."""
import pathlib

from harness import ROOT, Case, free_port, get, get_json, main, need, wait_for

ALERTMANAGER = need("prometheus-alertmanager")


def beside_its_templates(command):
    """Debian's Alertmanager opens /usr/share/prometheus/alertmanager/default.tmpl; one that is only unpacked sees its own share there."""
    if pathlib.Path("/usr/share/prometheus/alertmanager/default.tmpl").exists():
        return command
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /usr/share && exec "$@"',
            str(ROOT / "build/tools/usr/share"), *command]


class Alertmanager(Case):
    def start_alertmanager(self, receiver):
        port = free_port()
        config = self.folder / "alertmanager.yml"
        config.write_text(
            "route: {receiver: pager, group_by: [alertname, run, subject], group_wait: 100ms, group_interval: 1s, repeat_interval: 1h}\n"
            "receivers:\n"
            f"  - {{name: pager, webhook_configs: [{{url: '{receiver.url}', send_resolved: true}}]}}\n")
        self.spawn(beside_its_templates([ALERTMANAGER, f"--config.file={config}", f"--storage.path={self.folder / 'alertmanager'}",
                                         f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]))
        base = f"http://127.0.0.1:{port}"
        wait_for("Alertmanager", lambda: "OK" in get(base + "/-/ready"))
        return base

    def test_fires_and_resolves(self):
        pager = self.sink()
        base = self.start_alertmanager(pager)
        server = self.server(sinks=[{"name": "am", "type": "alertmanager", "url": base, "min_severity": "warning"}])
        trainer = self.spawn(self.demo_command(server, "hot", "--run", "paged", "--steps", "20000"))

        def alerts():
            return {a["labels"]["alertname"]: a for a in get_json(base + "/api/v2/alerts") if a["labels"]["run"] == "paged"}

        fired = wait_for("the alert in Alertmanager", lambda: alerts() if "ConsecutiveSkips" in alerts() else None)
        alert = fired["ConsecutiveSkips"]
        self.assertEqual(alert["status"]["state"], "active")
        self.assertEqual(alert["labels"]["severity"], "critical")
        self.assertEqual(alert["labels"]["trainer"], "scalewatch-demo")  # the run's own label
        self.assertTrue(alert["annotations"]["summary"])
        self.assertTrue(alert["annotations"]["advice"])

        def told(status):
            return {a["labels"]["alertname"] for body in pager.bodies() for a in body["alerts"] if a["status"] == status}

        wait_for("the page", lambda: "ConsecutiveSkips" in told("firing"))
        # The job is stopped: what was open resolves with it.
        trainer.terminate()
        self.assertEqual(trainer.wait(60), 0)
        wait_for("the resolve of all that fired", lambda: told("firing") <= told("resolved"))
        wait_for("an empty Alertmanager", lambda: not alerts())


if __name__ == "__main__":
    main()
