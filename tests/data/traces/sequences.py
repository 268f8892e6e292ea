"""What the make_*.py here share: the found_inf sequences that a scaler is led through, and the form of a trace.

A trace is CSV with CRLF line ends, as Python's csv module writes it:
    # POLICY parameter=value ...
    step,found_inf,scale_before,skipped,scale_after,note
`note` holds the scaler's own counters after the step as name=value, or `raises: why` on the last step. Scales are floats
with as many digits as tell them apart.
"""
import csv
import os
import random

STEPS = 400
SEED = 20250611


def sequences(seed):
    """Five sequences of found_inf by name; others for every seed."""
    chooser = random.Random(SEED + seed)

    def chance(share):
        return [int(chooser.random() < share) for _ in range(STEPS)]

    bursts = []
    while len(bursts) < STEPS:
        bursts += [0] * chooser.randint(5, 60) + [1] * chooser.randint(1, 6)
    start = [1] * chooser.randint(3, 20) + chance(0.01)
    return {"clean": [0] * STEPS, "rare": chance(0.02), "burst": bursts[:STEPS], "start": start[:STEPS], "storm": chance(0.5)}


def make(policy, settings, scaler_class, extra=()):
    """Leads scaler_class(**setting) through all sequences for each setting; writes POLICY/INDEX-NAME.csv beside this file.
    extra: more sequences, as (name, list) pairs, for the first setting.

    A scaler has scale(), attempt(found_inf) -> was the step skipped, and note(); what attempt raises ends the trace.
    """
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), policy)
    os.makedirs(folder, exist_ok=True)
    for index, setting in enumerate(settings):
        for name, founds in [*sequences(index).items(), *(extra if index == 0 else ())]:
            scaler = scaler_class(**setting)
            with open(os.path.join(folder, f"{index}-{name}.csv"), "w", newline="") as file:
                file.write(f"# {policy} " + " ".join(f"{key}={value}" for key, value in setting.items()) + "\r\n")
                rows = csv.writer(file)
                rows.writerow(["step", "found_inf", "scale_before", "skipped", "scale_after", "note"])
                for step, found_inf in enumerate(founds):
                    before = float(scaler.scale())
                    try:
                        skipped, raised = scaler.attempt(bool(found_inf)), None
                    except RuntimeError as error:
                        skipped, raised = True, f"raises: {error.args[0]}"
                    rows.writerow([step, found_inf, before, int(skipped), float(scaler.scale()), raised or scaler.note()])
                    if raised:
                        break
