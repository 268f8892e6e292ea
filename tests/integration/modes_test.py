"""The demo's modes end to end: what Scalewatch says of each is what its arithmetic did."""
from harness import Case, findings, main, worst

WARNING, CRITICAL = 2, 3


def places(found):
    """Blames that say where it began; those of rules over tensors only name one."""
    return [f["blame"] for f in found if f.get("blame", {}).get("where")]


class Modes(Case):
    def setUp(self):
        super().setUp()
        self.scalewatchd = self.server()

    def doctor(self, run):
        return self.scalewatchd.cli("doctor", "--run", run, check=False)

    def test_healthy_raises_nothing(self):
        printed = self.demo(self.scalewatchd, "healthy", "--run", "fine")
        self.assertIn("400 of 400 reports durable", printed)
        found = findings(self.scalewatchd, "fine")
        self.assertLess(worst(found), WARNING, found)
        told = self.scalewatchd.cli_json("scaler", "fine")["scaler"]
        self.assertGreaterEqual(int(told["growths"]), 2)
        self.assertGreaterEqual(int(told["skipped"]), 1)  # the edge was reached
        # It was the scale that was too high, and nothing in the model: the first gradient in backward's order gave way.
        for blame in places(found):
            self.assertEqual((blame["where"], blame["role"], blame["kind"]), ("backward", "ROLE_GRADIENT", "inf"), blame)
            self.assertRegex(blame["tensor"], r"^head\.")
            self.assertEqual(blame.get("note", ""), "")  # all was looked at
        status, text, _ = self.doctor("fine")
        self.assertEqual(status, 0, text)

    def test_healthy_on_four_ranks_raises_nothing(self):
        self.demo(self.scalewatchd, "healthy", "--run", "four", "--ranks", "4", "--steps", "120")
        run = self.scalewatchd.api("runs/four")
        self.assertLess(worst(run["findings"]), WARNING, run["findings"])
        self.assertEqual(int(run["run"]["applied"]), 120)
        # All of all ranks came, though one leads: details that a rank sends on top take numbers of their own.
        self.assertEqual([rank["last_attempt"] for rank in run["ranks"]], ["120"] * 4)
        self.assertTrue(all(int(rank["durable_seq"]) >= 120 for rank in run["ranks"]), run["ranks"])
        self.assertEqual([rank["lost_reports"] for rank in run["ranks"]], ["0"] * 4)

    def test_hot_names_the_tensor_that_overflowed(self):
        self.demo(self.scalewatchd, "hot", "--run", "hot")
        rules = {f["rule"] for f in findings(self.scalewatchd, "hot") if f["severity"] == "SEVERITY_CRITICAL"}
        self.assertIn("ConsecutiveSkips", rules)
        self.assertIn("NonFiniteLoss", rules)
        blamed = [f["blame"] for f in findings(self.scalewatchd, "hot", "NonFiniteGradient") if f.get("blame")]
        self.assertTrue(any(b["tensor"] for b in blamed), blamed)
        # Once the loss is NaN, the poison began in a layer's output, not in the gradients.
        loss = findings(self.scalewatchd, "hot", "NonFiniteLoss")[0]
        blame = loss["blame"]
        self.assertEqual((blame["where"], blame["role"]), ("forward", "ROLE_ACTIVATION"), blame)
        self.assertRegex(blame["tensor"], r"^(block\d\.|head\.)")
        self.assertEqual(blame["attempt"], loss["first_attempt"])  # where it began, whatever came after
        self.assertEqual(blame.get("note", ""), "")
        self.assertRegex(blame["fastest_falling"], r"\.out$")  # activations had been growing
        self.assertGreater(blame["octaves_fallen"], 1)
        self.assertEqual(loss["advice"][0]["id"], "lower_learning_rate", loss["advice"])
        # Forward had been fine before: the first skips were the gradients'.
        first = findings(self.scalewatchd, "hot", "NonFiniteActivation")[0]
        self.assertLess(int(findings(self.scalewatchd, "hot", "NonFiniteGradient")[0]["first_attempt"]), int(first["first_attempt"]))
        status, text, _ = self.doctor("hot")
        self.assertEqual(status, 2, text)
        self.assertIn(loss["blame"]["tensor"], text)

    def test_nan_data_blames_the_data(self):
        self.demo(self.scalewatchd, "nan-data", "--run", "data", "--ranks", "4", "--steps", "100")
        found = findings(self.scalewatchd, "data")
        self.assertEqual(worst(found), WARNING, found)
        loss = next(f for f in found if f["rule"] == "NonFiniteLoss")
        self.assertEqual((loss["first_attempt"], loss["blame"]["where"]), ("50", "input"), loss)
        # The last rank read the bad record. Its NaN reached every rank's gradients, and nothing else is blamed for them.
        self.assertGreaterEqual(len(places(found)), 2)
        for blame in places(found):
            self.assertEqual((blame["where"], blame.get("rank_of_origin"), blame["ranks"]), ("input", 3, [3]), blame)
            self.assertEqual(blame["attempt"], "50")
        self.assertEqual(loss["advice"][0]["id"], "look_at_data", loss["advice"])
        self.assertIn("rank 3", loss["advice"][0]["text"])
        self.assertNotIn("suspect_gpu", [advice["id"] for f in found for advice in f["advice"]])
        status, text, _ = self.doctor("data")
        self.assertEqual(status, 1, text)

    def test_no_update_is_never_applied(self):
        self.demo(self.scalewatchd, "no-update", "--run", "forgot", "--steps", "60")
        found = findings(self.scalewatchd, "forgot")
        never = [f for f in found if f["rule"] == "NeverApplied"]
        self.assertEqual([f["severity"] for f in never], ["SEVERITY_CRITICAL"], found)
        blame = never[0]["blame"]  # 2^22 is too much for what backward begins with, and forward is fine
        self.assertEqual((blame["where"], blame["role"], blame["kind"]), ("backward", "ROLE_GRADIENT", "inf"), blame)
        self.assertRegex(blame["tensor"], r"^head\.")
        self.assertEqual(never[0]["advice"][0]["id"], "call_update", never[0]["advice"])
        told = self.scalewatchd.cli_json("scaler", "forgot")
        self.assertEqual(int(told["scaler"]["applied"]), 0)
        self.assertEqual({p["scale_after"] for p in told["points"]}, {2.0**22})
        self.assertEqual(self.doctor("forgot")[0], 2)

    def test_doctor_says_when_there_is_nothing_to_read(self):
        status, _, error = self.doctor("nobody")
        self.assertEqual(status, 3)
        self.assertIn("nobody", error)


if __name__ == "__main__":
    main()
