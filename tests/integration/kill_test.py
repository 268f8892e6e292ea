"""kill -9 of the server in the middle of a four-rank job: no durable report is lost, none is there twice, and every alert's
firing has one key."""
import sqlite3
import time

from harness import Case, main, wait_for

RANKS, STEPS = 4, 400


class Kill(Case):
    def test_nothing_durable_is_lost_or_doubled(self):
        sink = self.sink(fail=2)
        server = self.server(sinks=[{"name": "hook", "type": "webhook", "url": sink.url, "min_severity": "info"}],
                             settings=["engine.snapshot_every=500ms"])
        trainer = self.spawn(self.demo_command(server, "hot", "--run", "killed", "--ranks", str(RANKS), "--steps", str(STEPS)))

        kills = 0
        for share in (0.15, 0.35, 0.55):
            wait_for(f"{share:.0%} of the run", lambda: int(server.api("runs/killed")["run"]["attempts"]) >= share * STEPS, 120)
            before = self.durable(server)
            server.kill()
            # What was acked is on disk now, whatever the clients do next.
            self.assert_once(server, at_least=before)
            time.sleep(0.3)
            server.start()
            kills += 1
        self.assertEqual(trainer.wait(240), 0)
        self.assertEqual(kills, 3)

        run = server.api("runs/killed")
        # A report each attempt; details that the microscope and rings bring take numbers of their own.
        self.assertEqual([r["last_attempt"] for r in run["ranks"]], [str(STEPS)] * RANKS)
        self.assertEqual([r["lost_reports"] for r in run["ranks"]], ["0"] * RANKS)
        self.assertEqual(int(run["run"]["attempts"]), STEPS)
        self.assertEqual(run["run"]["segment"], 1)
        self.assert_once(server, at_least={r["rank"]: max(STEPS, int(r["durable_seq"])) for r in run["ranks"]})
        with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as store:
            attempts = store.execute("SELECT rank, COUNT(*), COUNT(DISTINCT attempt) FROM reports WHERE NOT retrospective GROUP BY rank").fetchall()
        store.close()
        self.assertEqual(attempts, [(rank, STEPS, STEPS) for rank in range(RANKS)])

        def keys(transition):
            return [(b["alert_id"], b["key"]) for b in sink.bodies() if b["transition"] == transition]

        told = server.cli_json("alerts", "--run", "killed", "--all")["alerts"]
        ids = {alert["id"] for alert in told}
        self.assertGreaterEqual(len(ids), 3, told)
        wait_for("every alert at the sink", lambda: {i for i, _ in keys("firing")} >= ids)
        firing = set(keys("firing"))
        self.assertEqual({i for i, _ in firing}, ids)
        self.assertEqual(len(firing), len(ids), "an alert fired under two keys")
        resolved = set(keys("resolved"))
        self.assertEqual(len(resolved), len({i for i, _ in resolved}))
        # The scaler's count is over attempts, so a report counted twice would show.
        scaler = server.cli_json("scaler", "killed")["scaler"]
        self.assertEqual(int(scaler["applied"]) + int(scaler["skipped"]), STEPS)
        self.assertEqual(server.stop(), 0)

    @staticmethod
    def durable(server):
        return {r["rank"]: int(r["durable_seq"]) for r in server.api("runs/killed")["ranks"]}

    def assert_once(self, server, at_least):
        """In the store each rank's reports are 1, 2, 3 ... once each, at least up to what was durable."""
        with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as store:
            rows = store.execute("SELECT rank, COUNT(*), COUNT(DISTINCT seq), MIN(seq), MAX(seq) FROM reports GROUP BY rank").fetchall()
            streams = store.execute("SELECT COUNT(*), COUNT(DISTINCT rank) FROM streams").fetchone()
        store.close()
        self.assertEqual(streams, (RANKS, RANKS))  # reconnects are the same incarnations
        found = {rank: last for rank, _, _, _, last in rows}
        for rank, count, distinct, first, last in rows:
            self.assertEqual((count, distinct, first), (last, last, 1), f"rank {rank}")
        for rank, seq in at_least.items():
            self.assertGreaterEqual(found.get(rank, 0), seq, f"rank {rank} lost durable reports")


if __name__ == "__main__":
    main()
