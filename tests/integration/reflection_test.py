"""Python's grpcio reads the history by reflection, without generated code of ours."""
import math

from harness import Case, main
from reflection import Client, grpc

STEPS = 60


class Reflection(Case):
    def setUp(self):
        super().setUp()
        self.scalewatchd = self.server()
        self.demo(self.scalewatchd, "nan-data", "--run", "read", "--ranks", "2", "--steps", str(STEPS))
        self.client = Client(self.scalewatchd.address)
        self.addCleanup(self.client.close)

    def history(self, method, **fields):
        return self.client.call("scalewatch.v1.History/" + method, **fields)

    def test_reads_everything_back(self):
        self.assertLessEqual({"scalewatch.v1.Ingest", "scalewatch.v1.History", "scalewatch.v1.Alerts", "grpc.health.v1.Health"},
                             set(self.client.services()))
        # gRPC's own health service has no descriptor to reflect: an empty request, field 1 of the answer = 1, SERVING.
        health = self.client.channel.unary_unary("/grpc.health.v1.Health/Check")
        self.assertEqual(health(b"", timeout=10), b"\x08\x01")

        runs = self.history("ListRuns")["runs"]
        self.assertEqual([(r["name"], r["status"], r["world_size"]) for r in runs], [("read", "RUN_STATUS_FINISHED", 2)])
        run = self.history("GetRun", run="read")
        self.assertEqual([int(rank["last_attempt"]) for rank in run["ranks"]], [STEPS, STEPS])
        self.assertTrue(all(int(rank["durable_seq"]) >= STEPS for rank in run["ranks"]), run["ranks"])  # details come on top
        self.assertEqual(int(run["run"]["skipped"]), 1)

        tensors, token = [], ""
        while True:  # paged: 7 at a time
            page = self.history("ListTensors", run="read", page_size=7, page_token=token)
            tensors += page["tensors"]
            token = page.get("next_page_token", "")
            if not token:
                break
        names = {(t["info"]["name"], t["info"]["role"]) for t in tensors}
        self.assertEqual(len(names), len(tensors))
        for expected in (("embed.weight", "ROLE_PARAMETER"), ("block2.fc.out", "ROLE_ACTIVATION"), ("head.weight", "ROLE_GRADIENT"),
                         ("block1.fc.bias.exp_avg_sq", "ROLE_OPTIMIZER_STATE"), ("embed.out", "ROLE_ACTIVATION_GRADIENT")):
            self.assertIn(expected, names)
        order = [t["info"].get("forward_index", 0) for t in tensors]
        self.assertEqual(order, sorted(order))

        history = self.history("GetTensorHistory", run="read", tensor="head.weight", role="ROLE_GRADIENT")
        points = history["points"]
        self.assertEqual([int(p["first_attempt"]) for p in points], list(range(1, STEPS + 1)))
        bad = [p for p in points if int(p["record"].get("nan", 0)) > 0]
        self.assertEqual([int(p["first_attempt"]) for p in bad], [STEPS // 2])
        # Downsampled to a third, the one bad attempt is still there.
        fewer = self.history("GetTensorHistory", run="read", tensor="head.weight", role="ROLE_GRADIENT", max_points=20)["points"]
        self.assertLessEqual(len(fewer), 20)
        self.assertEqual(sum(int(p["record"].get("nan", 0)) for p in fewer), sum(int(p["record"]["nan"]) for p in bad))
        self.assertEqual(max(p["record"]["max"] for p in fewer if "max" in p["record"]),
                         max(p["record"]["max"] for p in points if "max" in p["record"]))

        attempt = self.history("GetAttempt", run="read", attempt=STEPS // 2, page_size=1000)
        self.assertEqual(attempt["attempt"].get("ranks"), [0, 1])
        logits = next(t for t in attempt["tensors"] if t["info"]["name"] == "head.out" and t["info"]["role"] == "ROLE_ACTIVATION")
        self.assertEqual(int(logits["record"]["numel"]), 2 * 64 * 76)  # both ranks' batches

        scaler = self.history("GetScalerHistory", run="read")
        self.assertEqual(int(scaler["scaler"]["skipped"]), 1)
        halved = [p for p in scaler["points"] if p.get("skipped")]
        self.assertEqual([(int(p["first_attempt"]), p["scale_before"], p["scale_after"]) for p in halved],
                         [(STEPS // 2, 32768, 16384)])
        top = self.history("TopTensors", run="read", by="BY_NON_FINITE", limit=3)["tensors"]
        self.assertTrue(all(t["value"] > 0 for t in top), top)

        alerts = self.client.call("scalewatch.v1.Alerts/ListAlerts", run="read",
                                  states=["ALERT_STATE_FIRING", "ALERT_STATE_RESOLVED"])["alerts"]
        self.assertIn("NonFiniteLoss", {a["finding"]["rule"] for a in alerts})

    def test_a_watcher_is_told_what_comes(self):
        call = self.client.channel.unary_stream("/scalewatch.v1.History/TailRun",
                                                request_serializer=lambda m: m.SerializeToString(),
                                                response_deserializer=self.type_of("scalewatch.v1.TailRunResponse").FromString)
        events = call(self.client.message("scalewatch.v1.TailRunRequest")(run="read"), timeout=60)
        trainer = self.spawn(self.demo_command(self.scalewatchd, "healthy", "--run", "read", "--steps", "200"))
        seen = []
        for event in events:
            if event.HasField("attempt"):
                seen.append(event.attempt.attempt)
                self.assertTrue(math.isfinite(event.attempt.loss))
            if len(seen) == 10:
                break
        events.cancel()
        self.assertEqual(seen, list(range(seen[0], seen[0] + 10)))
        self.assertEqual(trainer.wait(60), 0)

    def type_of(self, name):
        self.client.method("scalewatch.v1.History/TailRun")
        return self.client.message(name)

    def test_errors_say_what_is_wrong(self):
        for method, fields, code, words in (
                ("GetRun", {"run": "raed"}, grpc.StatusCode.NOT_FOUND, "read"),
                ("GetTensorHistory", {"run": "read", "tensor": "head.wieght"}, grpc.StatusCode.NOT_FOUND, "head.weight"),
                ("GetTensorHistory", {"run": "read", "tensor": "head.weight"}, grpc.StatusCode.INVALID_ARGUMENT, "role"),
                ("ListRuns", {"page_size": -1}, grpc.StatusCode.INVALID_ARGUMENT, "page_size"),
                ("ListRuns", {"page_token": "nonsense"}, grpc.StatusCode.INVALID_ARGUMENT, "page_token")):
            with self.assertRaises(grpc.RpcError) as caught:
                self.history(method, **fields)
            self.assertEqual(caught.exception.code(), code, (method, fields))
            self.assertIn(words, caught.exception.details(), (method, fields))


if __name__ == "__main__":
    main()
