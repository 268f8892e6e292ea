"""The server's files removed, swapped, emptied or damaged while it was down: it starts, or says in one line what to run; what was
lost is in its log and in a finding of the run, and nothing but what was stored is served. --rounds N random damages (6), --seed S.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from facts import durable_seqs
from harness import BIN, Case, end_with_parent, findings, main, wait_for

OPTIONS = None


class StoreFiles(Case):
    def job(self, server, run, steps):
        # Without an overflow every report is of an attempt of its own.
        return self.spawn(self.demo_command(server, "healthy", "--run", run, "--steps", str(steps), "--batch", "16", "--step-ms", "25",
                                            "--growth-interval", "100000", "--progress", "0"))

    def durable(self, server, run, at_least):
        return wait_for(f"{at_least} durable reports", lambda: (seq := durable_seqs(server, run).get(0, 0)) >= at_least and seq)

    def start_and_fail(self, server):
        """The one line that a server which can't start says."""
        done = subprocess.run(server.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              preexec_fn=end_with_parent)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("scalewatchd:")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def verify(self, server, *options):
        done = subprocess.run([str(BIN / "scalewatch"), "--json", "admin", "--data-dir", str(server.data), "verify", *options],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def lost(self, server, run):
        """What the run says that its store lost: by rank the first seq, the last and how many."""
        out = {}
        for rank in server.api(f"runs/{run}")["ranks"]:
            for loss in rank.get("losses", ()):
                if loss["cause"] == "store":
                    out[rank["rank"]] = (int(loss["first_seq"]), int(loss["last_seq"]), int(loss["reports"]))
        return out

    def check_finding(self, server, run):
        found = [f for f in findings(server, run, "StatsDropped") if f["subject"] == "store"]
        self.assertEqual([f["ranks"] for f in found], [[0]], findings(server, run))

    def test_a_write_ahead_log_that_is_gone(self):
        server = self.server()
        trainer = self.job(server, "gone", 400)
        self.durable(server, "gone", 20)
        self.assertEqual(server.stop(), 0)  # what came so far is in history.db
        server.start()
        durable = self.durable(server, "gone", 80)
        server.kill()
        (server.data / "history.db-wal").unlink()
        server.start()
        self.assertIn("durable commits are missing", server.log_path.read_text())
        wait_for("the client's word", lambda: self.lost(server, "gone"))
        first, last, reports = self.lost(server, "gone")[0]
        self.assertGreater(first, 20)
        self.assertGreaterEqual(last, durable)
        self.assertEqual(reports, last - first + 1)
        self.check_finding(server, "gone")
        self.assertEqual(trainer.wait(120), 0)
        wait_for("the goodbye", lambda: server.api("runs/gone")["run"]["status"] == "RUN_STATUS_FINISHED")
        rows = [json.loads(line) for line in server.cli("export", "gone", "--format", "jsonl", "--what", "attempts")[1].splitlines()]
        attempts = [row["attempt"] for row in rows]
        self.assertEqual(attempts, [a for a in range(1, 401) if not first <= a <= last], "what is there is not what was kept")
        # Told once: another start has nothing to say.
        self.assertEqual(server.stop(), 0)
        size = server.log_path.stat().st_size
        server.start()
        self.assertNotIn("missing", server.log_path.read_text()[size:])

    def test_a_file_that_is_emptied(self):
        server = self.server()
        trainer = self.job(server, "emptied", 300)
        self.durable(server, "emptied", 40)
        server.kill()
        os.truncate(server.history, 0)
        server.start()
        self.assertIn("made anew", server.log_path.read_text())
        wait_for("the client's word", lambda: self.lost(server, "emptied"))
        self.assertEqual(self.lost(server, "emptied")[0][0], 1)
        self.check_finding(server, "emptied")
        self.assertEqual(trainer.wait(120), 0)

    def test_the_log_of_another_server(self):
        other, server = self.server(), self.server()
        trainer, stranger = self.job(server, "mine", 300), self.job(other, "other", 300)
        self.durable(server, "mine", 20)
        self.assertEqual(server.stop(), 0)
        server.start()
        self.durable(server, "mine", 50)
        self.durable(other, "other", 50)
        other.kill()
        stranger.kill()
        server.kill()
        shutil.copy(other.data / "history.db-wal", server.data / "history.db-wal")
        server.start()
        self.assertIn("not its own", server.log_path.read_text())
        wait_for("the client's word", lambda: self.lost(server, "mine"))
        self.assertEqual([r["name"] for r in server.api("runs")["runs"]], ["mine"])
        self.assertEqual(trainer.wait(120), 0)

    def test_something_else_in_its_place(self):
        server = self.server()
        self.demo(server, "healthy", "--run", "kept", "--steps", "60", "--batch", "16", "--progress", "0")
        self.assertEqual(server.stop(), 0)
        whole = server.history.read_bytes()
        server.history.write_bytes(b"x" * 50_000)
        self.assertIn(f"run: scalewatch admin --data-dir {server.data} verify --repair", self.start_and_fail(server))
        # Nothing can be saved of that, and it is kept.
        self.verify(server, "--repair")
        self.assertEqual([p.read_bytes() for p in server.data.glob("history.db.damaged-*")], [b"x" * 50_000])
        server.start()
        self.assertEqual(server.api("runs").get("runs", []), [])
        self.assertEqual(server.stop(), 0)
        server.history.unlink()
        server.history.mkdir()
        self.assertIn("history.db", self.start_and_fail(server))
        server.history.rmdir()
        # A page in the middle.
        for path in server.data.glob("history.*"):
            path.unlink()
        size = len(whole) // 16384 * 16384
        server.history.write_bytes(whole[:16384 * 3] + os.urandom(16384 * 2) + whole[16384 * 5:size])
        code, told = self.verify(server, "--repair")
        self.assertIn("damaged", told)
        self.assertIn(code, (1, 2), told)
        server.start()
        self.assertIn(server.api("runs").get("runs", [{"name": "kept"}])[0]["name"], "kept")

    def test_something_else_beside_it(self):
        for name, told in (("history.mark", "nothing would tell"), ("ballast", "no room is kept for alerts")):
            for make in (os.mkdir, os.mkfifo):
                with self.subTest(name=name, made=make.__name__):
                    server = self.server(start=False)
                    server.data.mkdir()
                    make(server.data / name)
                    server.start()
                    self.assertIn(told, server.log_path.read_text())

    def start_or_refuse(self, server):
        """True when it is ready; False when it ended by itself, with one line."""
        (server.folder / "ports").unlink(missing_ok=True)
        with open(server.log_path, "ab") as log:
            server.process = subprocess.Popen(server.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                              preexec_fn=end_with_parent)
        wait_for("the start or its end", lambda: server.process.poll() is not None or (server.folder / "ports").exists())
        if server.process.poll() is None:
            return True
        self.assertEqual(server.process.returncode, 1)
        self.assertIn("cannot open the history", server.log().splitlines()[-1])
        return False

    def test_random_damage(self):
        """What is served then is for the unit tests (history_test, Damaged.*); here nothing may end the server or keep it down."""
        dice = random.Random(OPTIONS.seed)
        print(f"{OPTIONS.rounds} rounds, --seed {OPTIONS.seed}", flush=True)
        server = self.server()
        trainer = self.spawn(self.demo_command(server, "hot", "--run", "damaged", "--steps", "120", "--batch", "16", "--progress", "0"))
        self.durable(server, "damaged", 100)
        server.kill()
        trainer.kill()
        kept = self.folder / "kept"
        shutil.copytree(server.data, kept)
        refused = answered = told = 0
        for number in range(OPTIONS.rounds):
            where = f"--seed {OPTIONS.seed}, round {number}"
            shutil.rmtree(server.data)
            shutil.copytree(kept, server.data)
            path = server.data / dice.choice(("history.db", "history.db-wal", "history.db-wal"))
            content = bytearray(path.read_bytes())
            for _ in range(dice.randrange(1, 40) if content else 0):
                content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
            path.write_bytes(content)
            if not self.start_or_refuse(server):
                refused += 1
                self.verify(server, "--repair")
                self.assertTrue(self.start_or_refuse(server), where)
            for what in ("attempts", "findings", "tensors"):
                code = server.cli("export", "damaged", "--format", "jsonl", "--what", what, check=False)[0]
                answered, told = answered + (code == 0), told + (code != 0)
            # The trainer of then is gone; another one is watched all the same.
            self.assertIsNone(server.process.poll(), where)
            server.kill()
        print(f"{OPTIONS.rounds} rounds: {refused} starts refused until repaired, {answered} questions answered, {told} told why not")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    OPTIONS, sys.argv[1:] = parser.parse_known_args()
    main()
