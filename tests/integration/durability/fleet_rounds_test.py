"""kill -9 of the server that has the run, at random moments under the load of four ranks: --rounds N kills (8), --seed S (random).

Three servers share a ClickHouse, and clients keep their reports until they are there. The model is that of kill_rounds_test.py: a
single server that nobody killed, fed by the same trainer with the same seed. At the end the run's state, ranks, scalers, findings and
alerts equal the model's, nothing is told as lost, and the sink that all servers page has one key for each firing and each resolve.
"""
import argparse
import pathlib
import random
import sys
import time
import urllib.error

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import kill_rounds_test as single
from facts import SETTINGS, assert_equal, assert_equal_but_for, facts
from fleets import FleetCase
from harness import main, wait_for

NAMES = "abc"
# What a takeover must bring whole. Records of old attempts are the shared history's own matter.
PARTS = ("state", "ranks", "scalers", "findings", "alerts")


class FleetRounds(single.KillRounds, FleetCase):
    shared = None

    def job(self, servers, mode):
        if not isinstance(servers, dict):
            return single.KillRounds.job(self, servers, mode)
        return FleetCase.job(self, servers, mode, mode, "--ranks", str(single.RANKS), "--steps", str(single.STEPS), "--batch", "32",
                             "--step-ms", "90")

    def model(self, mode):
        return {part: told for part, told in single.KillRounds.model(self, mode).items() if part in (*PARTS, "attempts")}

    def make_fleet(self, number):
        with self._making:
            if FleetRounds.shared is None:
                FleetRounds.shared = self.click()
            sink = self.sink()
            settings = (*SETTINGS, f"history.clickhouse.database=run{number}")
            hook = {"name": "hook", "type": "webhook", "url": sink.url, "min_severity": "info"}
            return self.fleet(NAMES, FleetRounds.shared, sinks=[hook], settings=settings), sink

    def killed_run(self, number, models):
        mode, dice = single.MODES[number % len(single.MODES)], random.Random(single.OPTIONS.seed * 100_000 + number)
        servers, sink = self.make_fleet(number)
        trainer = self.spawn(self.job(servers, mode))
        owners = []
        for kill in range(1, single.KILLS_A_RUN + 1):
            owner = self.owner(servers, mode, but=None)
            time.sleep(dice.uniform(0.02, 1.5))  # the moment is the test's point
            servers[owner].kill()
            owners.append(owner)
            time.sleep(dice.uniform(0.0, 2.5))  # others may have taken the run when it is back, or not
            servers[owner].start()
        where = f"--seed {single.OPTIONS.seed}, run {number}, {mode}, killed {' '.join(owners)}"
        owner = servers[self.owner(servers, mode)]
        if not self.finish(owner, mode, trainer):
            return "cut short"
        owner = servers[self.owner(servers, mode)]
        found = facts(owner, mode)
        expected = {part: told for part, told in models[mode].items() if part in PARTS}
        losses = [loss["cause"] for rank in owner.api(f"runs/{mode}")["ranks"] for loss in rank["losses"]]
        told = "".join(f"{name}: {line}\n" for name, each in servers.items() for line in each.log().splitlines() if "run" in line)
        self.assertEqual([cause for cause in losses if cause == "store"], [], where + "\n" + told)
        self.assertEqual(found["state"]["lost_reports"], "0", where + "\n" + told)
        self.check_sink(sink, found["alerts"], where)
        without = self.without(owner, mode)
        print(f"run {number}: killed {' '.join(owners)}; with {self.owner(servers, mode)} at last; thinned {found['state']['thinned_reports']}, "
              f"decided without ranks: {without}", flush=True)
        for server in servers.values():
            self.assertEqual(server.stop(), 0, where)
        if found["state"]["thinned_reports"] != "0":
            assert_equal(self, {part: expected[part] for part in ("ranks", "scalers")}, found, where)
            return "thinned"
        if without:
            assert_equal_but_for(self, expected, found, without, where)
            return "without"
        assert_equal(self, expected, found, where)
        return "whole"

    @staticmethod
    def without(server, run):
        """Attempts that the server can still tell of and that were decided without some ranks."""
        out = {}
        for attempt in range(1, single.STEPS + 1):
            try:
                ranks = server.api(f"runs/{run}/attempts/{attempt}?summary_only=true")["attempt"]["missing"]
            except urllib.error.HTTPError:
                continue
            if ranks:
                out[attempt] = set(ranks)
        return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--parallel", type=int, default=2, help="runs side by side")
    single.OPTIONS, sys.argv[1:] = parser.parse_known_args()
    main()
