"""Who is asked for what: one rank sends full statistics for all that hold the same tensors, the others what is not finite; a
failure brings the ring of the attempts before; around a blamed tensor the named ranks send everything for a while."""
import sqlite3

from harness import Case, main

RANKS, STEPS = 4, 200


class Collect(Case):
    def stored(self, server, where=""):
        with sqlite3.connect(f"file:{server.history}?mode=ro", uri=True) as store:
            rows = store.execute("SELECT rank, retrospective, COUNT(*), SUM(LENGTH(payload)) FROM reports JOIN payloads USING (id) "
                                 f"{where} GROUP BY rank, retrospective").fetchall()
        store.close()
        return {(rank, bool(retrospective)): (count, size) for rank, retrospective, count, size in rows}

    def test_healthy_ranks_leave_full_statistics_to_one(self):
        server = self.server()
        self.demo(server, "healthy", "--run", "fleet", "--ranks", str(RANKS), "--steps", str(STEPS))
        seen = self.stored(server, f"WHERE attempt > {STEPS // 2}")
        leader = seen[(0, False)][1] / seen[(0, False)][0]
        for rank in range(1, RANKS):
            count, size = seen[(rank, False)]
            self.assertEqual(count, STEPS - STEPS // 2)
            self.assertLess(size / count, 0.6 * leader, f"rank {rank} sends what the leader sends")
        # Every rank's scaler is known all the same.
        run = server.api("runs/fleet")
        self.assertEqual([int(r["last_attempt"]) for r in run["ranks"]], [STEPS] * RANKS)

    def test_failure_brings_the_attempts_before_from_followers(self):
        server = self.server()
        self.demo(server, "nan-data", "--run", "poisoned", "--ranks", str(RANKS), "--steps", str(STEPS))
        followers = [rank for rank, retrospective in self.stored(server) if retrospective and rank != 0]
        self.assertTrue(followers, "no follower sent its ring")

    def test_all_ranks_send_all_where_it_is_asked_for(self):
        server = self.server(settings=["collection.stats_leader=false"])
        self.demo(server, "healthy", "--run", "all", "--ranks", "2", "--steps", "60")
        seen = self.stored(server)
        self.assertEqual(set(seen), {(0, False), (1, False)})
        self.assertAlmostEqual(seen[(0, False)][1] / seen[(1, False)][1], 1, delta=0.05)


if __name__ == "__main__":
    main()
