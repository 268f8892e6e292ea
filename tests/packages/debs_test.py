"""The Debian packages that deploy/debian/build made: lintian, what is in them, what they depend on, and that a trainer builds against
the library's. Needs no root.
    debs_test.py [FOLDER]      default: build/package/packages"""
import gzip
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build/package/packages")
NAMES = ["server", "cli", "client", "client-dev"]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class Debs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.debs = {}
        for name in NAMES:
            [cls.debs[name]] = FOLDER.glob(f"scalewatch-{name}_*.deb")
        cls.root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        for deb in cls.debs.values():
            run("dpkg-deb", "-x", deb, cls.root)

    def field(self, name, field):
        return run("dpkg-deb", "-f", self.debs[name], field).strip()

    def paths(self, name):
        return {line.split()[5].removeprefix(".") for line in run("dpkg-deb", "-c", self.debs[name]).splitlines()}

    def test_lintian_finds_no_error(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is missing; tests/run packages installs it")
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit", "0", *map(str, self.debs.values())],
                              capture_output=True, text=True, timeout=600)
        print(done.stdout, flush=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_depends_on_what_it_links(self):
        server = self.field("server", "Depends")
        for name in ("adduser", "libc6", "libgrpc++1.51", "libprotobuf32", "libsqlite3-0", "libssl3", "libcurl4"):
            self.assertRegex(server, rf"(^|, ){re.escape(name)}( |,|$)")
        self.assertNotIn("protobuf", self.field("client", "Depends"))
        version = self.field("client", "Version")
        self.assertEqual(self.field("client-dev", "Depends"), f"scalewatch-client (= {version})")

    def test_contents(self):
        server = self.paths("server")
        for path in ("/usr/bin/scalewatchd", "/lib/systemd/system/scalewatchd.service", "/etc/scalewatch/scalewatchd.yaml",
                     "/usr/share/man/man8/scalewatchd.8.gz", "/usr/share/scalewatch/prometheus/server.rules.yml",
                     "/usr/share/scalewatch/grafana/dashboards/fleet.json", "/usr/share/scalewatch/alertmanager/alertmanager.yml",
                     "/usr/share/doc/scalewatch-server/runbooks/ScaleCollapse.md", "/usr/share/doc/scalewatch-server/METRICS.md"):
            self.assertIn(path, server)
        cli = self.paths("cli")
        for path in ("/usr/bin/scalewatch", "/usr/share/man/man1/scalewatch.1.gz", "/usr/share/bash-completion/completions/scalewatch",
                     "/usr/share/zsh/vendor-completions/_scalewatch", "/usr/share/fish/vendor_completions.d/scalewatch.fish"):
            self.assertIn(path, cli)
        libraries = [path for path in self.paths("client") if "/libscalewatch.so.0" in path]
        self.assertEqual(len(libraries), 2)
        self.assertIn(libraries[0].partition(".so")[0] + ".so", self.paths("client-dev"))
        self.assertIn("/usr/include/scalewatch/scalewatch.h", self.paths("client-dev"))
        for name in NAMES:
            self.assertIn(f"/usr/share/doc/scalewatch-{name}/copyright", self.paths(name))
            self.assertIn(f"/usr/share/doc/scalewatch-{name}/changelog.Debian.gz", self.paths(name))

    def test_everything_belongs_to_root(self):
        for name in NAMES:
            for line in run("dpkg-deb", "-c", self.debs[name]).splitlines():
                self.assertEqual(line.split()[1], "root/root", line)
                self.assertNotRegex(line.split()[0], r"^-(.....w|........w|..s|.....s)")

    def test_configuration_is_the_documented_one(self):
        packed = (self.root / "etc/scalewatch/scalewatchd.yaml").read_text().splitlines()
        source = (ROOT / "deploy/scalewatchd.yaml").read_text().splitlines()
        differ = [(a, b) for a, b in zip(source, packed) if a != b]
        self.assertEqual(len(source), len(packed))
        self.assertEqual([b.split("#")[0].strip() for _, b in differ], ["data_dir: /var/lib/scalewatch"])
        # As a user: the configuration must be right without the folders of the service.
        run(self.root / "usr/bin/scalewatchd", "--config", self.root / "etc/scalewatch/scalewatchd.yaml", "--check")

    def test_manual_names_every_flag(self):
        page = gzip.decompress((self.root / "usr/share/man/man8/scalewatchd.8.gz").read_bytes()).decode().replace("\\-", "-")
        flags = re.findall(r"^  (?:-\w,)?(--[a-z-]+)", run(self.root / "usr/bin/scalewatchd", "--help"), re.M)
        self.assertGreater(len(flags), 10)
        for flag in flags:
            self.assertIn(flag, page)
        if shutil.which("man"):
            for path in ("man8/scalewatchd.8.gz", "man1/scalewatch.1.gz"):
                done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", self.root / "usr/share/man" / path],
                                      capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
                self.assertEqual((done.returncode, done.stderr), (0, ""), path)

    def test_completions_are_those_of_the_command(self):
        for shell, path in (("bash", "bash-completion/completions/scalewatch"), ("zsh", "zsh/vendor-completions/_scalewatch"),
                            ("fish", "fish/vendor_completions.d/scalewatch.fish")):
            self.assertEqual((self.root / "usr/share" / path).read_text(), run(self.root / "usr/bin/scalewatch", "completion", shell))
        run("bash", "-n", self.root / "usr/share/bash-completion/completions/scalewatch")

    def test_bills_of_materials_have_what_the_packages_depend_on(self):
        for name in ("server", "cli", "client"):
            doc = self.root / f"usr/share/doc/scalewatch-{name}"
            body = json.loads(gzip.decompress((doc / "sbom.spdx.json.gz").read_bytes()))
            direct = {package["name"] for package in body["packages"]}
            for depend in re.findall(r"(?:^|, )(lib[^\s,]+)", self.field(name, "Depends")):
                # What a package provides, such as libspdlog1.10-fmt9, has its name in front.
                self.assertTrue(any(depend == one or depend.startswith(one + "-") for one in direct), f"the bill of {name} lacks {depend}")
            self.assertIn("compiled in", gzip.decompress((doc / "licences.txt.gz").read_bytes()).decode())

    def test_no_path_of_the_build_is_left(self):
        for path in ("usr/bin/scalewatchd", "usr/bin/scalewatch"):
            self.assertNotIn(str(ROOT).encode(), (self.root / path).read_bytes(), path)
        for library in self.root.glob("usr/lib/**/libscalewatch.so.0.*"):
            self.assertNotIn(str(ROOT).encode(), library.read_bytes())

    def test_hardening(self):
        for path in ["usr/bin/scalewatchd", "usr/bin/scalewatch"]:
            dynamic = run("readelf", "-d", self.root / path)
            self.assertIn("BIND_NOW", dynamic)
            self.assertIn("PIE", dynamic)
            self.assertNotIn("RUNPATH", dynamic)
            self.assertIn("GNU_RELRO", run("readelf", "-lW", self.root / path))
            self.assertIn("__stack_chk_fail", run("readelf", "-sW", "--dyn-syms", self.root / path))

    def test_a_trainer_builds_against_the_packages(self):
        with tempfile.TemporaryDirectory() as build:
            run("cmake", "-S", ROOT / "client_lib/example", "-B", build, f"-DCMAKE_PREFIX_PATH={self.root}/usr")
            run("cmake", "--build", build)
            done = subprocess.run([f"{build}/trainer"], capture_output=True, text=True, timeout=120,
                                  env={"SCALEWATCH_SERVER": "127.0.0.1:1"})
            self.assertIn("step 100", done.stdout)


if __name__ == "__main__":
    if not list(FOLDER.glob("*.deb")):
        print(f"SKIPPED: no packages in {FOLDER}; tests/run packages makes them", flush=True)
        sys.exit(77)
    unittest.main(verbosity=2)
