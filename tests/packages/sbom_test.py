"""The bill of materials of what was built: as SPDX 2.3 asks, complete against what the loader really maps, and the same each time.
    sbom_test.py BUILD_FOLDER"""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build/release")
PROGRAMS = {"scalewatchd": BUILD / "bin/scalewatchd", "scalewatch": BUILD / "bin/scalewatch",
            "libscalewatch": BUILD / "lib/libscalewatch.so.0"}
ID = re.compile(r"^SPDXRef-[A-Za-z0-9.-]+$")
LICENCE = re.compile(r"^(NOASSERTION|[A-Za-z0-9.-]+( AND [A-Za-z0-9.-]+)*)$")


@functools.cache
def sbom(name, *more):
    return subprocess.run([ROOT / "deploy/sbom/sbom", "--build", BUILD, "--name", name, *more, PROGRAMS[name]], check=True,
                          capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1796000000"}).stdout


class Sbom(unittest.TestCase):
    def setUp(self):
        if not shutil.which("ninja") or not shutil.which("dpkg-query") or not all(path.exists() for path in PROGRAMS.values()):
            print("SKIPPED: needs ninja, dpkg and what the build makes", flush=True)
            sys.exit(77)

    def test_documents(self):
        for name in PROGRAMS:
            body = json.loads(sbom(name))
            self.assertEqual((body["spdxVersion"], body["dataLicense"], body["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
            self.assertRegex(body["documentNamespace"], r"^https://[^#\s]+$")
            self.assertEqual(body["creationInfo"]["created"], "2026-11-30T00:53:20Z")
            ids = [package["SPDXID"] for package in body["packages"]]
            self.assertEqual(len(ids), len(set(ids)))
            extracted = {entry["licenseId"] for entry in body["hasExtractedLicensingInfos"]}
            for package in body["packages"]:
                self.assertRegex(package["SPDXID"], ID)
                self.assertRegex(package["licenseDeclared"], LICENCE)
                self.assertTrue(package["versionInfo"])
                used = {word for word in package["licenseDeclared"].split() if word.startswith("LicenseRef-")}
                self.assertLessEqual(used, extracted)
            for relation in body["relationships"]:
                self.assertIn(relation["relatedSpdxElement"], ids)
                self.assertIn(relation["relationshipType"], ("DESCRIBES", "DYNAMIC_LINK", "DEPENDS_ON", "STATIC_LINK"))

    def test_spdx_tools_agree(self):
        """The reference implementation's validation, where it is at hand (tests/run packages fetches it)."""
        tools = ROOT / "build/tools/packages/bin/pyspdxtools"
        if not tools.exists():
            self.skipTest("spdx-tools are missing; tests/run packages fetches them")
        for name in PROGRAMS:
            path = BUILD / f"{name}.spdx.json"
            path.write_text(sbom(name))
            done = subprocess.run([tools, "-i", path], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_apache_program_may_link_it(self):
        """Of every part it is known under which licence it is used, and none of these forbids what is done with it."""
        allowed = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Attribution", "BSL-1.0", "MIT", "OLDAP-2.8", "Zlib", "blessing", "curl"}
        shared = {"LGPL-2.0-or-later", "LGPL-2.1-or-later", "LGPL-3.0-or-later"}  # as a shared library, which anybody may replace
        excepted = {"GPL-3.0-or-later WITH GCC-exception-3.1", "GPL-2.0-only WITH Linux-syscall-note"}
        for name in PROGRAMS:
            body = json.loads(sbom(name))
            how = {}
            for relation in body["relationships"]:
                how.setdefault(relation["relatedSpdxElement"], set()).add(relation["relationshipType"])
            self.assertEqual(body["packages"][0]["licenseDeclared"], "Apache-2.0")
            for package in body["packages"]:
                licence = package["licenseConcluded"]
                # Of the C library only headers are compiled in, which its licence does not reach.
                linked = "STATIC_LINK" not in how[package["SPDXID"]] or package["name"] == "libc6-dev"
                self.assertTrue(licence in allowed | excepted or (licence in shared and linked), f"{package['name']}: {licence}")

    def test_every_library_of_a_process_is_in_it(self):
        """What the loader says it maps, not what the bill's own way of asking finds."""
        for name, path in PROGRAMS.items():
            if name.startswith("lib"):
                continue
            done = subprocess.run([path, "--version"], capture_output=True, text=True, env={**os.environ, "LD_DEBUG": "files"}, timeout=60)
            mapped = set(re.findall(r"calling init: (/\S+)", done.stderr))
            self.assertGreater(len(mapped), 20)
            packages = {package["name"] for package in json.loads(sbom(name))["packages"]}
            for library in mapped:
                real = os.path.realpath(library)
                found = subprocess.run(["dpkg-query", "-S", real], capture_output=True, text=True)
                if found.returncode != 0:
                    found = subprocess.run(["dpkg-query", "-S", real.removeprefix("/usr")], capture_output=True, text=True, check=True)
                self.assertIn(found.stdout.split(":")[0], packages, library)

    def test_header_only_parts_are_in_it(self):
        parts = {package["name"]: package for package in json.loads(sbom("scalewatch"))["packages"]}
        for name in ("nlohmann-json3-dev", "libcli11-dev"):
            self.assertIn(name, parts)
        self.assertIn("MIT", parts["nlohmann-json3-dev"]["licenseDeclared"])
        client = {package["name"] for package in json.loads(sbom("libscalewatch"))["packages"]}
        self.assertIn("libprotozero-dev", client)
        self.assertFalse([name for name in client if name.startswith("libprotobuf")], "the trainer has no Protobuf")

    def test_licences_carry_the_notices_of_what_is_compiled_in(self):
        page = sbom("scalewatch", "--licences")
        self.assertIn("Niels Lohmann", page)
        self.assertRegex(page, r"(?m)^libgrpc\+\+1\.51 +1\.51\S* +linked +Apache-2\.0")

    def test_same_bytes_each_time(self):
        for more in ((), ("--licences",)):
            self.assertEqual(sbom("libscalewatch", *more), sbom.__wrapped__("libscalewatch", *more))


if __name__ == "__main__":
    unittest.main(verbosity=2)
