"""Trainers that end in their ways, against a real server; lifetime_trainer.cc is the trainer."""
import signal
import subprocess

from harness import BIN, Case, end_with_parent, main, wait_for


class Lifetime(Case):
    def setUp(self):
        super().setUp()
        self.scalewatchd = self.server()

    def trainer(self, way):
        process = subprocess.Popen([str(BIN / "client_lifetime_trainer"), way, self.scalewatchd.address], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
        self.addCleanup(process.kill)
        return process

    def wait_until_gone(self, attempts, goodbye):
        def gone():
            told = self.scalewatchd.api("runs/lifetime")
            (rank,) = told["ranks"]
            return not rank.get("connected") and int(told["run"].get("attempts", 0)) >= attempts and told

        told = wait_for("the trainer to be gone", gone, timeout=30)  # its silence alone would take a minute
        if goodbye is not None:
            self.assertEqual(bool(told["ranks"][0].get("said_goodbye")), goodbye)
        self.assertEqual(int(told["run"].get("lost_reports", 0)), 0)
        self.assertEqual([run["name"] for run in self.scalewatchd.api("runs")["runs"]], ["lifetime"])

    def test_close_with_a_stopped_server_returns_in_its_time(self):
        trainer = self.trainer("close when told")
        self.assertEqual(trainer.stdout.readline(), "durable\n")
        self.scalewatchd.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.scalewatchd.process.send_signal, signal.SIGCONT)
        out, _ = trainer.communicate("now\n", timeout=60)  # close was given one second
        self.assertEqual((trainer.returncode, out), (0, "timed out\n"))
        self.scalewatchd.process.send_signal(signal.SIGCONT)
        self.wait_until_gone(1, None)  # what lay in the socket may still be read

    def test_workers_cost_the_run_nothing(self):
        trainer = self.trainer("fork")
        out, err = trainer.communicate(timeout=60)
        self.assertEqual((trainer.returncode, out, err), (0, "", ""))
        self.wait_until_gone(10, True)

    def test_a_worker_outlives_its_trainer(self):
        trainer = self.trainer("outlived exit")
        out, err = trainer.communicate(timeout=60)
        self.assertEqual((trainer.returncode, out, err), (0, "worker refused\n", ""))
        self.wait_until_gone(5, False)


if __name__ == "__main__":
    main()
