"""Packages in a Debian of their own (debootstrap, once, under build/tools/packages): installed, used, upgraded from an older version,
removed, purged. Needs root. Debian's packages come from where this machine's apt takes them.
    install_test.py [NEW_FOLDER OLD_FOLDER]      default: build/package/packages build/package/older"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEW = pathlib.Path(sys.argv[1] if len(sys.argv) > 2 else ROOT / "build/package/packages")
OLD = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build/package/older")
del sys.argv[1:]
TOOLS = ROOT / "build/tools/packages"
FRESH, HERE = TOOLS / "debian", TOOLS / "debian.used"
LOG = ROOT / "tests/data/logs/apex-289.log"
CONFIG = "/etc/scalewatch/scalewatchd.yaml"


def skip(why):
    print(f"SKIPPED: {why}", flush=True)
    sys.exit(77)


def host(*command, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=900, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.stdout[-3000:]}")
    return done.stdout


def make_debian():
    """A minimal Debian of this machine's release and mirror; apt's own settings come along, for a proxy or keys."""
    if (FRESH / "etc/debian_version").exists():
        return
    release = re.search(r"VERSION_CODENAME=(\S+)", pathlib.Path("/etc/os-release").read_text()).group(1)
    mirror = host("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", f"Codename: {release}").split()
    shutil.rmtree(FRESH, ignore_errors=True)
    TOOLS.mkdir(parents=True, exist_ok=True)
    host("debootstrap", "--variant=minbase", "--include=ca-certificates,init-system-helpers", release, FRESH, mirror[0])
    host("cp", "-a", "/etc/apt/apt.conf.d/.", FRESH / "etc/apt/apt.conf.d/")
    inside("apt-get update -qq", FRESH)


def inside(script, root=None):
    """A shell in the folder, with a /proc of its own and nothing that it starts left behind; nobody answers questions."""
    root = root or HERE
    return host("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                'mount -t proc proc "$1/proc" && mount -t tmpfs tmp "$1/tmp" && exec chroot "$1" /bin/bash -euo pipefail -c "$2"',
                "sh", root, script,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "HOME": "/root",
                     **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}})


def install(folder, *names):
    (HERE / "debs").mkdir(exist_ok=True)
    paths = []
    for name in names:
        [deb] = folder.glob(f"scalewatch-{name}_*.deb")
        shutil.copy(deb, HERE / "debs")
        paths.append(f"/debs/{deb.name}")
    return inside(f"apt-get install -y --no-install-recommends {' '.join(paths)}")


# The service's own command as its own user, on free ports; then what follows, with $S as the server's address.
SERVE = """
command=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/scalewatchd.service)
runuser -u scalewatch -- $command --listen 127.0.0.1:0 --http 127.0.0.1:0 --port-file /var/lib/scalewatch/ports 2>/var/lib/scalewatch/log >&2 &
for i in $(seq 300); do [ -s /var/lib/scalewatch/ports ] && break; sleep 0.1; done
S=127.0.0.1:$(sed -n 's/^grpc=//p' /var/lib/scalewatch/ports)
"""
STOP = """
kill -TERM $(pidof scalewatchd); wait
rm -f /var/lib/scalewatch/ports /var/lib/scalewatch/log
"""


def traces():
    """What has scalewatch in its name, but for apt's and dpkg's own books."""
    return sorted(line for line in inside(
        "find / -xdev \\( -path /proc -o -path /debs -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \\) "
        "-prune -o -iname '*scalewatch*' -print; getent passwd scalewatch || true; getent group scalewatch || true").splitlines() if line)


class Install(unittest.TestCase):
    """One story, told in order."""

    @classmethod
    def setUpClass(cls):
        make_debian()
        shutil.rmtree(HERE, ignore_errors=True)
        host("cp", "-a", FRESH, HERE)
        cls.addClassCleanup(shutil.rmtree, HERE, ignore_errors=True)

    def test_1_install_makes_user_folders_and_service(self):
        self.assertEqual(traces(), [])
        said = install(OLD, "server", "cli")
        self.assertNotIn("warning", said.lower().replace("debconf: ", ""))
        self.assertRegex(inside("getent passwd scalewatch"), r"^scalewatch:x:\d+:\d+:.*:/var/lib/scalewatch:/usr/sbin/nologin$")
        self.assertEqual(inside("stat -c '%U:%G %a' /var/lib/scalewatch /etc/scalewatch").split("\n")[:2],
                         ["scalewatch:scalewatch 750", "root:scalewatch 750"])
        self.assertTrue((HERE / "etc/systemd/system/multi-user.target.wants/scalewatchd.service").is_symlink())

    def test_2_runs_as_its_user_and_keeps_a_run(self):
        shutil.copy(LOG, HERE / "debs/train.log")
        shown = inside(SERVE + "scalewatch --server $S import /debs/train.log --run kept; scalewatch --server $S --json runs" + STOP)
        self.assertIn('"kept"', shown)
        self.assertEqual(inside("stat -c '%U' /var/lib/scalewatch/history.db").strip(), "scalewatch")

    def test_3_upgrade_keeps_data_and_changed_configuration(self):
        inside(f"echo '# mine' >> {CONFIG}; echo secret > /etc/scalewatch/tokens; chmod 0700 /etc/scalewatch; chown scalewatch /etc/scalewatch")
        old = inside("dpkg-query -W -f='${Version}' scalewatch-server")
        install(NEW, "server", "cli")
        new = inside("dpkg-query -W -f='${Version}' scalewatch-server")
        self.assertNotEqual(inside(f"dpkg --compare-versions {old} lt {new} && echo yes").strip(), "")
        self.assertIn("# mine", (HERE / CONFIG[1:]).read_text())
        self.assertEqual(inside("stat -c '%U %a' /etc/scalewatch").strip(), "scalewatch 700", "an administrator's choice stays")
        self.assertIn('"kept"', inside(SERVE + "scalewatch --server $S --json runs" + STOP))

    def test_4_library(self):
        install(NEW, "client", "client-dev")
        self.assertIn("libscalewatch.so.0", inside("ldconfig -p"))
        inside("apt-get purge -y scalewatch-client scalewatch-client-dev")
        self.assertNotIn("libscalewatch", inside("ldconfig -p"))

    def test_5_remove_keeps_what_is_not_the_package(self):
        inside("apt-get remove -y scalewatch-server scalewatch-cli")
        self.assertFalse((HERE / "usr/bin/scalewatchd").exists())
        self.assertIn("# mine", (HERE / CONFIG[1:]).read_text())
        self.assertTrue((HERE / "var/lib/scalewatch/history.db").exists())
        self.assertNotEqual(inside("getent passwd scalewatch"), "")

    def test_6_install_again_finds_it_all(self):
        install(NEW, "server", "cli")
        self.assertIn('"kept"', inside(SERVE + "scalewatch --server $S --json runs" + STOP))
        self.assertTrue((HERE / "etc/systemd/system/multi-user.target.wants/scalewatchd.service").is_symlink())

    def test_7_purge_asks_nothing_and_leaves_nothing_of_its_own(self):
        inside("apt-get purge -y scalewatch-server scalewatch-cli")
        # A file of the administrator's, and the folder around it, are not the package's to delete.
        self.assertEqual(traces(), ["/etc/scalewatch"])
        self.assertEqual(os.listdir(HERE / "etc/scalewatch"), ["tokens"])


class Image(unittest.TestCase):
    """The commands of deploy/docker/Dockerfile's stages base and server, run in a Debian in a folder in place of a container engine."""

    @classmethod
    def setUpClass(cls):
        make_debian()
        shutil.rmtree(HERE, ignore_errors=True)
        host("cp", "-a", FRESH, HERE)
        cls.addClassCleanup(shutil.rmtree, HERE, ignore_errors=True)
        shutil.copytree(NEW, HERE / "packages")

    def test_server(self):
        text = (ROOT / "deploy/docker/Dockerfile").read_text()
        stages = dict(re.findall(r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM |\Z)", text, re.M | re.S))
        commands = []
        for name in ("base", "server"):
            lines = "\n".join(line for line in stages[name].splitlines() if not line.lstrip().startswith("#")).replace("\\\n", " ")
            commands += re.findall(r"^RUN (?:--mount=\S+ +)*(.*)$", lines, re.M)
        self.assertEqual(len(commands), 2)
        for command in commands:
            inside(command)
        [health] = re.findall(r'^HEALTHCHECK .* CMD \["bash", "-c", "(.*)"\]$', text, re.M)
        # As the image's user, who may write nowhere but into the volume and /tmp. Ports of its own, for those may be taken here.
        serve = "cd /var/lib/scalewatch; setpriv --reuid 10464 --regid 10464 --clear-groups --no-new-privs --bounding-set=-all "
        refused = inside(serve + "scalewatchd --config /etc/scalewatch/scalewatchd.yaml 2>&1 && exit 1 || true")
        self.assertIn("insecure", refused, "it listens for others only when told twice")
        inside(serve + "scalewatchd --config /etc/scalewatch/scalewatchd.yaml --listen 127.0.0.1:0 --http 127.0.0.1:0 "
               "--port-file /var/lib/scalewatch/ports 2>/tmp/log >&2 & for i in $(seq 300); do [ -s /var/lib/scalewatch/ports ] && break; sleep 0.1; done; "
               "port=$(sed -n 's/^http=//p' /var/lib/scalewatch/ports); cat /tmp/log; " + health.replace("9464", "$port") + "; kill -TERM %1; wait %1")
        self.assertEqual(inside("stat -c %u /var/lib/scalewatch/history.db").strip(), "10464")


if __name__ == "__main__":
    if os.geteuid() != 0:
        skip("needs root, to install into a folder")
    if not shutil.which("debootstrap"):
        skip("debootstrap is missing; tests/run packages installs it")
    if not list(NEW.glob("*.deb")) or not list(OLD.glob("*.deb")):
        skip(f"no packages in {NEW} and {OLD}; tests/run packages makes them")
    unittest.main(verbosity=2, failfast=True)
