"""What-if against the truth: the demo trains with one seed under several loss scalers; what the run under the first predicts of the
others stands beside what they really did. Only the replay of the policy that ran must be exact; predictions have errors, for a run
that skips another attempt has other weights from then on. SCALEWATCH_WHATIF_STEPS makes the runs longer."""
import math
import os

from harness import Case, main

os.environ["SCALEWATCH_CONFIG"] = os.devnull  # not that of whoever runs the test

STEPS = int(os.environ.get("SCALEWATCH_WHATIF_STEPS", "160"))
SEED = 7
POLICIES = {
    "A": {"init_scale": 2.0**20, "growth_interval": 10, "backoff_factor": 0.5},
    "B": {"init_scale": 2.0**28, "growth_interval": 10, "backoff_factor": 0.5},
    "C": {"init_scale": 2.0**15, "growth_interval": 25, "backoff_factor": 0.5},
    "D": {"init_scale": 2.0**20, "growth_interval": 5, "backoff_factor": 0.25},
}


def told(policy):
    return f"init 2^{math.log2(policy['init_scale']):.0f}, growth every {policy['growth_interval']}, backoff {policy['backoff_factor']}"


class WhatIf(Case):
    def setUp(self):
        super().setUp()
        self.scalewatchd = self.server()

    def train(self, name, policy):
        self.demo(self.scalewatchd, "healthy", "--run", name, "--steps", str(STEPS), "--seed", str(SEED),
                  "--init-scale", str(policy["init_scale"]), "--growth-interval", str(int(policy["growth_interval"])),
                  "--backoff", str(policy["backoff_factor"]))

    def predicted(self, run, policy):
        settings = [part for key, value in policy.items() for part in ("--set", f"{key}={value}")]
        return self.scalewatchd.cli_json("whatif", run, *settings)

    def test_the_replay_is_exact_and_predictions_are_held_against_real_runs(self):
        for name, policy in POLICIES.items():
            self.train(name, policy)
        print()
        print(f"| demo healthy, seed {SEED}, {STEPS} attempts | skips | predicted from A | undecided | attempts decided otherwise "
              "| scale apart |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, policy in POLICIES.items():
            real = self.predicted(name, policy)  # its own policy over its own attempts
            self.assertEqual(real["replay_differs_at"], 0, name)
            self.assertEqual(real["attempts"], STEPS)
            self.assertEqual(real["instead"]["skipped"], sum(step["skipped"] for step in real["steps"]), name)
            guess = self.predicted("A", policy)
            pairs = list(zip(real["steps"], guess["steps"]))
            otherwise = sum(r["skipped"] != g["instead_skipped"] for r, g in pairs)
            apart = sum(abs(math.log2(r["scale"] / g["instead_scale"])) for r, g in pairs) / len(pairs)
            skips = sum(step["skipped"] for step in real["steps"])
            print(f"| {name}: {told(policy)} | {skips} | {guess['instead']['skipped']} | {guess['instead']['undecided']} "
                  f"| {otherwise} | {apart:.2f} octaves |")
            if name == "A":
                self.assertEqual((otherwise, apart), (0, 0))

        # The search promises no more than a replay of its settings gives.
        best = self.scalewatchd.cli_json("whatif", "A", "--best")
        self.assertTrue(best["search"]["within"])
        self.assertLessEqual(best["search"]["underflow"], best["search"]["most_underflow"])
        self.assertLess(best["instead"]["skipped"], best["ran"]["skipped"])
        again = self.predicted("A", best["instead"]["parameters"])
        self.assertEqual(again["instead"]["skipped"], best["instead"]["skipped"])
        self.train("best", best["instead"]["parameters"])
        really = int(self.scalewatchd.cli_json("show", "best")["run"]["skipped"])
        found = ", ".join(f"{key} {value:g}" for key, value in best["instead"]["parameters"].items())
        print(f"| --best: {found} | {really} | {best['instead']['skipped']} | {best['instead']['undecided']} | | |")

        bf16 = self.scalewatchd.cli_json("whatif", "A", "--bf16")
        self.assertEqual(bf16["attempts"], STEPS)
        self.assertEqual(bf16["skipped"], best["ran"]["skipped"])
        for tensor in bf16["tensors"]:
            # bf16 has fp32's range: whatever fp16 held, under whatever scale, is normal in it.
            if tensor["elements"] > 0 and tensor["role"] == "gradient":
                self.assertEqual(tensor["bf16"]["flushed"], {"low": 0, "high": 0}, tensor)


if __name__ == "__main__":
    main()
