"""Writes the fuzzers' first inputs. tests/fuzz/*_fuzz.cc say what their first bytes mean.

    seeds.py LOGS SEEDS              for detection every log, for the formats together a few logs each
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
