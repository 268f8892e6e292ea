"""scalewatchd as a program: a clean stop keeps all that was acked; what it cannot work with is one line and an exit code."""
import os
import socket
import sqlite3
import subprocess

from harness import BIN, Case, get, main, wait_for


class App(Case):
    def refused(self, *arguments, env=None):
        """Runs scalewatchd, which must give up by itself; returns its one line."""
        done = subprocess.run([str(BIN / "scalewatchd"), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=20, env=env)
        self.assertNotEqual(done.returncode, 0)
        lines = (done.stdout + done.stderr).strip().splitlines()
        self.assertEqual(len(lines), 1, lines)
        return lines[0]

    def private(self, *more):
        return ("--data-dir", str(self.folder / "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *more)

    def test_sigterm_keeps_what_was_acked(self):
        server = self.server()
        trainer = self.spawn(self.demo_command(server, "healthy", "--run", "stopped", "--steps", "2000", "--ranks", "2"))
        wait_for("some attempts", lambda: int(server.api("runs/stopped")["run"]["attempts"]) > 30)
        self.assertEqual(server.stop(), 0)
        trainer.terminate()  # it ends by itself, without a server
        server.start()
        before = {r["rank"]: int(r["durable_seq"]) for r in server.api("runs/stopped")["ranks"]}
        self.assertGreaterEqual(min(before.values()), 30)
        self.assertEqual(trainer.wait(60), 0)
        run = wait_for("the goodbye", lambda: (r := server.api("runs/stopped")) and r["run"]["status"] == "RUN_STATUS_FINISHED" and r)
        for rank in run["ranks"]:
            self.assertGreaterEqual(int(rank["durable_seq"]), before[rank["rank"]])
            self.assertEqual(int(rank["lost_reports"]), 0)
        self.assertEqual(server.stop(), 0)

    def test_health(self):
        server = self.server()
        self.assertEqual(get(server.http + "/healthz"), "ok\n")
        self.assertEqual(get(server.http + "/readyz"), "ready\n")

    def test_a_data_folder_that_cannot_be_written(self):
        blocker = self.folder / "file"
        blocker.write_text("")
        path = str(blocker / "data")
        self.assertIn(path, self.refused("--data-dir", path, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"))

    def test_a_data_folder_in_use(self):
        server = self.server()
        line = self.refused("--data-dir", str(server.data), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
        self.assertIn(str(server.data), line)
        self.assertEqual(get(server.http + "/healthz"), "ok\n")

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for flag, other in (("--listen", "--http"), ("--http", "--listen")):
                line = self.refused("--data-dir", str(self.folder / "data"), flag, f"127.0.0.1:{port}", other, "127.0.0.1:0")
                self.assertIn(str(port), line)

    def test_a_broken_configuration(self):
        config = self.folder / "bad.yaml"
        for text, words in (("engine: {commit_delay: soon}", "commit_delay"), ("engine: [", "bad.yaml"), ("colour: blue", "colour"),
                            ("alerting: {sinks: [{name: a, type: pigeon, url: 'http://x/'}]}", "pigeon")):
            config.write_text(text + "\n")
            self.assertIn(words, self.refused("--config", str(config), *self.private()))
        self.assertIn("missing.yaml", self.refused("--config", str(self.folder / "missing.yaml"), *self.private()))
        self.assertIn("--nonsense", self.refused("--nonsense"))

    def test_listens_beyond_loopback_only_when_told(self):
        line = self.refused("--data-dir", str(self.folder / "data"), "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0")
        self.assertIn("insecure", line)

    def test_an_older_server_refuses_a_newer_history(self):
        server = self.server()
        self.assertEqual(server.stop(), 0)
        with sqlite3.connect(server.history) as store:
            store.execute("PRAGMA user_version = 1000")
        store.close()
        self.assertIn("1000", self.refused("--data-dir", str(server.data), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"))

    def test_the_command_says_what_to_do_without_a_server(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            done = subprocess.run([str(BIN / "scalewatch"), "--server", f"127.0.0.1:{port}", "runs"], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=30, env={**os.environ, "NO_COLOR": "1"})
        self.assertEqual(done.returncode, 3)
        self.assertIn(str(port), done.stderr)


if __name__ == "__main__":
    main()
