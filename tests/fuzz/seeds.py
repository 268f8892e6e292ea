"""Writes the fuzzers' first inputs. tests/fuzz/*_fuzz.cc say what their first bytes mean.

    seeds.py LOGS SEEDS              for detection every log, for the formats together a few logs each; for what enters a server
                                     recorded streams, requests and the example configuration
    seeds.py LOGS SEEDS --each N     for the format of this number, 0 to N - 1, every log, in a folder of its own; and "all"
"""
import pathlib
import sys

logs = sorted(p for p in pathlib.Path(sys.argv[1]).rglob("*") if p.suffix in (".log", ".json"))
seeds = pathlib.Path(sys.argv[2])


def write(folder, name, head, log, size):
    (seeds / folder).mkdir(parents=True, exist_ok=True)
    (seeds / folder / name).write_bytes(bytes(head) + log.read_bytes()[:size])


if "--each" in sys.argv:
    for number, log in enumerate(logs):
        write("all", log.name, [number % 256], log, 250)
        for format_number in range(int(sys.argv[4])):
            write(str(format_number), log.name, [format_number, 255], log, 250)
else:
    for number, log in enumerate(logs):
        write("detection", log.name, [number % 256], log, 1000)
        for format_number in range(64):
            if (format_number + number) % 16 == 0:  # each format begins with a few of the logs
                write("format", f"{format_number}-{log.name}", [format_number, 255], log, 1000)

    root = pathlib.Path(__file__).resolve().parents[2]
    for found in (root / "tests/fuzz/found").glob("*/*"):  # inputs that failed once
        (seeds / found.parent.name / found.name).write_bytes(found.read_bytes())
    for kind in ("ingest", "api", "config"):
        (seeds / kind).mkdir(parents=True, exist_ok=True)
    for recording in (root / "tests/data/wire").glob("*.wire"):
        (seeds / "ingest" / recording.name).write_bytes(recording.read_bytes()[:4096])
    for number, line in enumerate(open(root / "tests/fuzz/api_seeds.txt", encoding="utf-8").read().splitlines()):
        method, target, body = (line.split(" ", 2) + [""])[:3]
        text = f"{method}\n{target}\n{'application/json' if body else ''}\n{body}"
        (seeds / "api" / str(number)).write_bytes(b"\xff" + text.encode())
    example = (root / "deploy/scalewatchd.yaml").read_text(encoding="utf-8")
    (seeds / "config" / "whole").write_text(example, encoding="utf-8")
    for number, section in enumerate(example.split("\n\n")):
        (seeds / "config" / str(number)).write_text(section.replace("\n# ", "\n").replace("\n#", "\n"), encoding="utf-8")
