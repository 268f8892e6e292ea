"""A real server that is stopped, black-holed, killed and restarted, or never there: the trainer's thread waits for nothing (not
one allocation, lock or system call), memory stays bounded, nothing is lost that fits, and hardly anything is printed."""
import ctypes
import fcntl
import json
import signal
import socket
import struct
import subprocess
import sys
import time

from harness import BIN, SKIPPED, Case, end_with_parent, free_port, main, wait_for

TRAINER = BIN / "client_guarded_trainer"
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def loopback(up):
    """Everything that is sent to a loopback device that is down vanishes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        flags = flags | IFF_UP if up else flags & ~IFF_UP
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


class Trainer:
    def __init__(self, case, server, run, *more):
        self.case = case
        self.errors = open(case.folder / f"{run}.err", "w+b")
        case.addCleanup(self.errors.close)
        self.process = subprocess.Popen([str(TRAINER), server, run, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, preexec_fn=end_with_parent)
        case.addCleanup(self.process.stdout.close)
        case.addCleanup(self.process.stdin.close)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096 / (1 << 20)

    def phase(self, what, command="phase"):
        """Ends the phase that runs and checks it."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        seen = json.loads(self.process.stdout.readline())
        print(f"{what}: {seen}", flush=True)
        for never in ("allocations", "locks", "system_calls", "refused"):
            self.case.assertEqual(seen[never], 0, f"{what}: {seen}")
        if command == "phase":  # the end may come between two attempts
            self.case.assertGreater(seen["attempts"], 0)
        return seen

    def lines_said(self):
        self.errors.flush()
        self.errors.seek(0)
        return [line for line in self.errors.read().decode().splitlines() if line.startswith("scalewatch:")]


class ClientFaults(Case):
    def test_trainer_waits_for_nothing_whatever_the_server_does(self):
        server = self.server()
        trainer = Trainer(self, server.address, "faults")
        time.sleep(1)
        live = trainer.phase("live")
        before = trainer.resident_mib()

        server.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        trainer.phase("server stopped")
        server.process.send_signal(signal.SIGCONT)

        loopback(False)
        time.sleep(3)
        trainer.phase("black hole")
        loopback(True)

        server.kill()
        time.sleep(1)
        trainer.phase("server killed")
        server.start()
        time.sleep(2)
        trainer.phase("server back")
        self.assertLess(trainer.resident_mib() - before, 96)

        end = trainer.phase("end", "end")
        self.assertEqual(trainer.process.wait(90), 0)
        self.assertEqual(end["durable"], end["ended"])
        self.assertEqual(end["dropped"], 0)
        self.assertGreater(end["connects"], 1)
        self.assertEqual(live["dropped"], 0)
        self.assertLessEqual(len(trainer.lines_said()), 1, trainer.lines_said())
        run = wait_for("the goodbye", lambda: [r for r in [server.api("runs/faults")["run"]] if r["status"] == "RUN_STATUS_FINISHED"])[0]
        self.assertEqual(int(run["attempts"]), end["ended"])
        self.assertEqual(int(run.get("lost_reports", 0)), 0)

    def test_server_that_comes_late_gets_all_scaler_observations(self):
        server = self.server(start=False)
        server.grpc_port, server.http_port = free_port(), free_port()
        trainer = Trainer(self, server.address, "late")
        time.sleep(2)
        trainer.phase("absent at start")
        server.start()
        end = trainer.phase("end", "end")
        self.assertEqual(trainer.process.wait(90), 0)
        self.assertEqual(end["dropped"], 0)
        scaler = server.cli_json("scaler", "late")["scaler"]
        self.assertEqual(int(scaler["applied"]), end["ended"])
        self.assertLessEqual(len(trainer.lines_said()), 1)


if __name__ == "__main__":
    if not TRAINER.exists():
        print(f"SKIPPED: no {TRAINER.name} (built on x86-64, not under sanitizers)", flush=True)
        sys.exit(SKIPPED)
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        print("SKIPPED: no network namespace of its own for this test (it wants root)", flush=True)
        sys.exit(SKIPPED)
    loopback(True)
    main()
