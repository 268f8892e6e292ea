"""The service, images, Alertmanager's configuration and job snippets, as far as files can be checked; what a tool is missing for is
skipped and named."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SCRIPTS = ["debian/build", "debian/fill", "debian/server/postinst", "debian/server/prerm", "debian/server/postrm", "jobs/slurm.sh",
           "install-packages", "quickstart"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **options)


def tool(case, name):
    """Its path; also of what tests/run packages fetched."""
    found = shutil.which(name, path=f"/usr/bin:/usr/local/bin:{ROOT}/build/tools/usr/bin:{ROOT}/build/tools/packages/bin")
    if not found:
        case.skipTest(f"{name} is missing; tests/run packages installs it")
    return found


class Service(unittest.TestCase):
    UNIT = DEPLOY / "systemd/scalewatchd.service"

    def test_exposure_is_below_two(self):
        done = run(tool(self, "systemd-analyze"), "security", "--offline=yes", "--no-pager", self.UNIT)
        score = re.search(r"Overall exposure level for scalewatchd.service: ([0-9.]+)", done.stdout)
        self.assertTrue(score, done.stdout + done.stderr)
        self.assertLess(float(score.group(1)), 2.0)

    def test_systemd_knows_every_line(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "scalewatchd.service"
            # The program and its manual are not installed here.
            unit.write_text(self.UNIT.read_text().replace("/usr/bin/scalewatchd", "/bin/true").replace("man:scalewatchd(8)", "man:true(1)"))
            done = run(tool(self, "systemd-analyze"), "verify", "--man=no", unit)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_paths_are_those_of_the_package(self):
        text = self.UNIT.read_text()
        made = (DEPLOY / "debian/CMakeLists.txt").read_text()
        self.assertIn("--config /etc/scalewatch/scalewatchd.yaml", text)
        self.assertIn("DESTINATION /etc/scalewatch", made)
        self.assertIn("/var/lib/scalewatch", made)
        self.assertIn("StateDirectory=scalewatch\n", text)
        self.assertEqual((DEPLOY / "debian/server/conffiles").read_text(), "/etc/scalewatch/scalewatchd.yaml\n")


class Scripts(unittest.TestCase):
    def test_shellcheck(self):
        done = run(tool(self, "shellcheck"), *SCRIPTS, cwd=DEPLOY)
        self.assertEqual(done.returncode, 0, done.stdout)


class Dockerfile(unittest.TestCase):
    TEXT = (DEPLOY / "docker/Dockerfile").read_text()

    def test_hadolint(self):
        done = run(tool(self, "hadolint"), DEPLOY / "docker/Dockerfile")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_runs_as_nobody_of_importance(self):
        stages = dict(re.findall(r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM |\Z)", self.TEXT, re.M | re.S))
        for name in ("server", "demo"):
            self.assertEqual(re.findall(r"^USER (.*)$", stages[name], re.M), ["10464:10464"], name)
        self.assertIn("HEALTHCHECK", stages["server"])
        compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
        for name in ("scalewatchd", "demo"):
            self.assertIn(compose[name]["build"]["target"], stages)
            self.assertTrue(compose[name]["read_only"], name)
            self.assertEqual((compose[name]["cap_drop"], compose[name]["security_opt"]), (["ALL"], ["no-new-privileges:true"]), name)

    def test_what_it_copies_is_there_and_not_ignored(self):
        ignored = (ROOT / ".dockerignore").read_text().split()
        for line in re.findall(r"^COPY (?!--from)(.*)$", self.TEXT, re.M):
            for path in line.split()[:-1]:
                self.assertTrue((ROOT / path).exists(), path)
                self.assertNotIn(path.rstrip("/"), ignored)


class Alertmanager(unittest.TestCase):
    CONFIG = DEPLOY / "alertmanager/alertmanager.yml"

    def test_amtool_takes_it(self):
        amtool = tool(self, "amtool")
        for config in (self.CONFIG, DEPLOY / "compose/alertmanager.yml"):
            done = run(amtool, "check-config", config)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def route(self, **labels):
        words = [f"{name}={value}" for name, value in labels.items()]
        done = run(tool(self, "amtool"), "config", "routes", "test", f"--config.file={self.CONFIG}", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_who_is_told(self):
        self.assertEqual(self.route(alertname="NonFiniteLoss", run="a", severity="critical"), "pager,chat")
        self.assertEqual(self.route(alertname="LowHeadroom", run="a", severity="warning"), "chat")
        self.assertEqual(self.route(alertname="ScaleDrift", run="a", severity="info"), "nobody")
        self.assertEqual(self.route(alertname="Watchdog", severity="info"), "heartbeat")
        self.assertEqual(self.route(alertname="ScalewatchDown", severity="critical", source="prometheus"), "platform")
        self.assertEqual(self.route(alertname="ScaleCollapse", run="a", severity="critical", source="prometheus"), "pager,chat")

    def test_every_alert_of_deploy_has_a_place(self):
        for rules in sorted((DEPLOY / "prometheus").glob("*.rules.yml")):
            for group in yaml.safe_load(rules.read_text())["groups"]:
                for rule in group["rules"]:
                    if "alert" in rule:
                        labels = {name: value for name, value in rule["labels"].items() if "{{" not in value}
                        self.assertNotEqual(self.route(alertname=rule["alert"], **labels), "", rule["alert"])


class Jobs(unittest.TestCase):
    # The names that the client reads; client_lib/README.md has them too.
    READ = {"SCALEWATCH_SERVER", "SCALEWATCH_RUN", "SCALEWATCH_TOKEN_FILE", "SCALEWATCH_CA_FILE", "SCALEWATCH_CERT_FILE",
            "SCALEWATCH_KEY_FILE", "SCALEWATCH_SPOOL_DIR"}

    def test_snippets_name_what_the_client_reads(self):
        sources = "".join(path.read_text() for path in (ROOT / "client_lib/src").glob("*.cc"))
        for name in self.READ:
            self.assertTrue(f'"{name}"' in sources, name)
        for snippet in ("slurm.sh", "kubernetes.yaml"):
            self.assertLessEqual(set(re.findall(r"SCALEWATCH_[A-Z_]+", (DEPLOY / "jobs" / snippet).read_text())), self.READ, snippet)

    def test_slurm_gives_each_task_its_rank(self):
        """The script itself, with stand-ins for Slurm's programs: srun runs two tasks."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "scontrol").write_text("#!/bin/sh\necho node7\nsleep 0.3\necho node8\n")
            (folder / "srun").write_text('#!/bin/bash\nset -e\nwhile [[ $1 == --* ]]; do shift; done\n'
                                         'for n in 0 1; do SLURM_PROCID=$n SLURM_LOCALID=$n "$@"; done\n')
            for name in ("scontrol", "srun"):
                (folder / name).chmod(0o755)
            done = run("bash", DEPLOY / "jobs/slurm.sh", "sh", "-c",
                       'echo "$RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $SCALEWATCH_RUN $SCALEWATCH_SPOOL_DIR $1"', "sh", "a b",
                       env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": "/home/x", "SLURM_JOB_NAME": "bert", "SLURM_JOB_ID": "42",
                            "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "node[7-8]"})
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.splitlines(), [f"{rank} 2 node7 20042 bert /tmp/scalewatch-42 a b" for rank in (0, 1)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
