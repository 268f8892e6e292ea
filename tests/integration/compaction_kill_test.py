"""kill -9 of the server while it turns reports into chunks: no durable report is lost, none is there twice, and the history
verifies."""
import json
import sqlite3
import subprocess
import time

from harness import BIN, Case, main, wait_for

RANKS, STEPS, ROUNDS = 2, 900, 4


class CompactionKill(Case):
    def test_nothing_is_lost_or_doubled(self):
        server = self.server(settings=["history.idle_after=1s", "engine.snapshot_every=500ms"])
        trainer = self.spawn(self.demo_command(server, "hot", "--run", "killed", "--ranks", str(RANKS), "--steps", str(STEPS)))
        for number in range(ROUNDS):
            chunks = self.count(server, "chunks")
            # The first new chunks are there a moment before the rows that make them visible.
            wait_for(f"compaction in round {number}", lambda: self.count(server, "chunks") > chunks, 120)
            before = {r["rank"]: int(r["durable_seq"]) for r in server.api("runs/killed")["ranks"]}
            server.kill()
            self.assert_once(server, before)
            self.verify(server)
            time.sleep(0.2)
            server.start()
        self.assertEqual(trainer.wait(300), 0)
        wait_for("all to be in chunks", lambda: self.count(server, "reports WHERE NOT retrospective") == self.in_chunks(server), 60)
        # What the client could not keep while the server was away, it has told.
        ranks = server.api("runs/killed")["ranks"]
        self.assertEqual(sorted(r["rank"] for r in ranks), list(range(RANKS)))
        self.assert_once(server, {r["rank"]: STEPS - int(r.get("lost_reports", 0)) for r in ranks})
        self.assertEqual(server.stop(), 0)
        self.verify(server)

    @staticmethod
    def select(server, sql):
        store = sqlite3.connect(f"file:{server.history}?mode=ro", uri=True, timeout=10)
        try:
            return store.execute(sql).fetchall()
        finally:
            store.close()

    def count(self, server, what):
        return self.select(server, f"SELECT count(*) FROM {what}")[0][0]

    def in_chunks(self, server):
        return self.select(server, "SELECT coalesce(sum(reports), 0) FROM stretches")[0][0]

    def assert_once(self, server, at_least):
        rows = self.select(server, "SELECT rank, count(*), count(DISTINCT seq), max(seq) FROM reports GROUP BY rank")
        found = {rank: last for rank, _, _, last in rows}
        for rank, count, distinct, last in rows:
            self.assertEqual((count, distinct), (last, last), f"rank {rank}")
        for rank, seq in at_least.items():
            self.assertGreaterEqual(found.get(rank, 0), seq, f"rank {rank} lost durable reports")
        # Stretches of a stream follow each other, none covers what another does, and each holds as many as it says.
        self.assertEqual(self.select(server, "SELECT a.id FROM stretches a JOIN stretches b ON a.stream = b.stream AND "
                                             "b.number = a.number + 1 AND b.first_seq <= a.last_seq"), [])
        self.assertEqual(self.select(server, "SELECT id FROM stretches s WHERE reports <> (SELECT count(*) FROM reports r WHERE "
                                             "r.stream = s.stream AND r.seq BETWEEN s.first_seq AND s.last_seq AND NOT "
                                             "r.retrospective)"), [])

    def verify(self, server):
        done = subprocess.run([str(BIN / "scalewatch"), "--json", "admin", "--data-dir", str(server.data), "verify"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads(done.stdout)["faults_found"], 0)


if __name__ == "__main__":
    main()
