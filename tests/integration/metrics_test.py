"""What /metrics shows of real runs, over restarts too."""
import re
import subprocess
import urllib.error

from harness import BIN, Case, ROOT, get, main, wait_for


def page(server):
    """{series with labels: value as text} of a server's /metrics."""
    lines = [line for line in get(server.http + "/metrics").splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def of_run(told, run):
    return {series: value for series, value in told.items() if f'run="{run}"' in series}


class Metrics(Case):
    def test_ended_runs_come_back_after_a_restart_and_leave_in_time(self):
        server = self.server(settings=("metrics.finished_for=1h",))
        self.demo(server, "hot", "--run", "over", "--steps", "60")
        before = page(server)
        self.assertEqual(before['scalewatch_run_status{run="over",status="finished"}'], "1")
        for name in ("headroom_octaves", "underflow_ratio", "tensor_headroom_octaves", "skips_total", "non_finite_elements_total"):
            self.assertTrue([series for series in before if series.startswith("scalewatch_" + name)], name)
        for how in (server.stop, server.kill):
            how()
            server.start()
            after = page(server)
            # All that was known of it, to the last series.
            self.assertEqual(of_run(after, "over"), of_run(before, "over"), how)
        # It goes on under the same name: the engine has it again, and no series stands twice.
        self.demo(server, "healthy", "--run", "over", "--steps", "20")
        lines = [line.rsplit(" ", 1)[0] for line in get(server.http + "/metrics").splitlines() if not line.startswith("#")]
        self.assertEqual(len(lines), len(set(lines)))
        self.assertEqual(page(server)['scalewatch_attempts_total{run="over",outcome="applied"}'], "20")
        # A shorter time, and it is gone.
        server.stop()
        server.settings = ("metrics.finished_for=1ms",)
        server.start()
        self.assertFalse([series for series in page(server) if 'run="over"' in series])

    def test_tensors_roles_and_skips_of_a_run(self):
        server = self.server(settings=("metrics.top_tensors=3",))
        self.demo(server, "hot", "--run", "hot", "--steps", "200")
        told = wait_for("readings", lambda: (lambda p: p if 'scalewatch_headroom_octaves{run="hot",role="gradient"}' in p else None)(
            page(server)))
        tensors = [series for series in told if series.startswith("scalewatch_tensor_headroom_octaves{")]
        self.assertEqual(len(tensors), 3, tensors)
        roles = {re.search(r'role="(\w+)"', series)[1] for series in told if series.startswith("scalewatch_headroom_octaves{")}
        self.assertLessEqual({"gradient", "parameter", "activation"}, roles)
        skipped = int(told['scalewatch_attempts_total{run="hot",outcome="skipped"}'])
        by_reason = {re.search(r'reason="(\w+)"', series)[1]: int(value) for series, value in told.items()
                     if series.startswith("scalewatch_skips_total{")}
        self.assertEqual(sum(by_reason.values()), skipped, by_reason)
        self.assertGreater(by_reason["gradient"], 0, by_reason)
        self.assertGreater(int(told['scalewatch_non_finite_attempts_total{run="hot",role="gradient"}']), 0)
        self.assertGreater(int(told['scalewatch_non_finite_elements_total{run="hot",role="gradient"}']), 0)

    def test_calls_and_the_store_are_metered(self):
        server = self.server()
        self.demo(server, "healthy", "--run", "some", "--steps", "20")
        server.cli("runs")
        server.cli("show", "nobody", check=False)
        server.api("runs")
        with self.assertRaises(urllib.error.HTTPError):
            server.api("runs/nobody")
        told = page(server)
        self.assertEqual(told['scalewatch_rpcs_total{code="OK",method="History/ListRuns"}'], "1")
        self.assertEqual(told['scalewatch_rpc_duration_seconds_count{method="History/ListRuns"}'], "1")
        self.assertTrue([series for series in told if 'code="NOT_FOUND"' in series])
        self.assertFalse([series for series in told if "Ingest/" in series])
        self.assertEqual(told['scalewatch_http_request_duration_seconds_count{route="/api/v1/runs"}'], "1")
        self.assertEqual(told['scalewatch_http_requests_total{code="404",route="/api/v1/runs/{run}"}'], "1")
        self.assertEqual(told["scalewatch_history_ballast_bytes"], told["scalewatch_history_ballast_wanted_bytes"])
        self.assertEqual(told["scalewatch_history_commit_duration_seconds_count"], told["scalewatch_history_commits_total"])
        self.assertGreater(int(told['scalewatch_history_size_bytes{file="database"}']), 0)
        self.assertGreater(int(told["scalewatch_history_disk_free_bytes"]), 0)
        self.assertGreater(int(told['scalewatch_history_page_cache_reads_total{result="hit"}']), 0)
        self.assertEqual(told["scalewatch_ingest_queue_limit_bytes"], str(512 << 20))

    def test_the_reference_is_the_page_in_deploy(self):
        printed = subprocess.run([str(BIN / "scalewatchd"), "--metrics-reference"], capture_output=True, text=True, timeout=60)
        self.assertEqual((printed.returncode, printed.stderr), (0, ""))
        self.assertEqual(printed.stdout, (ROOT / "deploy/METRICS.md").read_text())


if __name__ == "__main__":
    main()
