"""Writes the fuzzers' first inputs: seeds.py LOGS SEEDS. Each target has a folder; tests/fuzz/*_fuzz.cc say what its first bytes mean."""
import pathlib
import sys

logs = sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.suffix in (".log", ".json"))
seeds = pathlib.Path(sys.argv[2])
for number, log in enumerate(logs):
    text = log.read_bytes()[:1000]
    (seeds / "detection" / log.name).write_bytes(bytes([number]) + text)
    for format_number in range(64):
        if (format_number + number) % 16 == 0:  # each format begins with a few of the logs
            (seeds / "format" / f"{format_number}-{log.name}").write_bytes(bytes([format_number, 255]) + text)
