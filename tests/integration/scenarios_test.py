"""Reports of real training gone wrong, played again through the client API: what was expected of a good monitor is what fires.

Each scenario of tests/data/scenarios.json is a run of client_scenarios on one server. SCALEWATCH_TEST_VERBOSE=1 prints all findings.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import textwrap
import urllib.parse

from harness import BIN, ROOT, Case, main, wait_for, worst

INFO, WARNING, CRITICAL = 1, 2, 3
LEVELS = {"info": INFO, "warning": WARNING, "critical": CRITICAL}
SCENARIOS = json.loads((ROOT / "tests/data/scenarios.json").read_text())

# What an expected finding must say, by scenario: its first step (or the range it may lie in), where that is known; words of its
# advice, all of them, or of its summary; the tensor blamed; the ranks.
EXPECTED = {
    "apex-953": {"step": 0, "advice": ["do not resume from this checkpoint", "scan its parameters"]},
    "apex-179": {"step": (33, 132), "advice": ["each its own scaler", "fp32"]},
    "deepspeedexamples-418": {"step": (1, 17), "advice": ["bf16|bfloat16"]},
    "paddledetection-8305": {"step": (0, 100), "advice": [r"raise the loss scale from 2\^10", "init_scale"]},
    "espnet-3237": {"step": (7, 7), "advice": ["compute the loss in fp32"]},
    "pytorch-98828": {"step": (8, 17), "advice": ["constant, zero or detached", "cap the scale"]},
    "pytorch-157436": {"step": 2331, "advice": [r"call scaler.update\(\) once an attempt"]},
    "tensorflow-38357": {"step": 16, "advice": ["mean in place of a sum", "fp32"]},
    "weathergen-356": {"step": 41, "advice": ["constant or detached", "on every rank", "drop or repair such samples"], "ranks": [2]},
    "gof-2": {"step": 0, "advice": ["never remove the framework's assertion"]},
    "lightning-7975": {"step": 10, "advice": ["only for optimizers that took part in backward"], "summary": "optimizer_1"},
    "accelerate-641": {"step": 1, "advice": ["if accelerator.sync_gradients: clip"]},
    "adaface-127": {"step": 0, "advice": ["print the dtype"], "summary": r"PReLU\.weight"},
    # The learning rate after the skipped step tells that the scheduler went on over it.
    "accelerate-4242": {"step": (18, 19), "advice": ["before and after update", "fused"]},
    "pytorch-40907": {"step": 1, "advice": ["unscale_.* before clip_grad_norm_"], "summary": "12"},
    "mxnet-15738": {"step": 1, "advice": ["before clip_grad_norm_"]},
    "co-tracker-101": {"step": 300, "advice": [r"save scaler.state_dict\(\)"], "summary": r"2\^16.*2\^14"},
    "pytorch-90057": {"step": 2071, "advice": [r"all-reduce the scale \(minimum\)", "drop the last batches"], "summary": r"2\^16 against 2\^17"},
    "fairscale-179": {"step": 30, "advice": ["reduce found_inf over all ranks"], "ranks": [1], "summary": "found_inf of"},
    "transformers-5651": {"step": 34, "advice": ["fp32", "clamp", "bf16"], "tensor": "encoder.block.1.DenseReluDense.wo"},
    "transformers-24638": {"step": 50, "advice": ["fp32", "clamp"], "tensor": "h.0.attn.scores"},
    "unsloth-zoo-866": {"step": 1, "advice": ["self_attn.q_norm in fp32"], "tensor": "model.layers.0.self_attn.q_norm.weight"},
    "nanogpt-167": {"step": 5970, "advice": ["GradScaler", "bf16"]},
    "pytorch-147437": {"step": 1, "advice": ["fp32", "1e-4"]},
    "open-rig3r-35": {"step": (0, 100), "advice": ["bf16", "scaler"]},
    "yolov5-7908": {"step": 0, "advice": ["half-precision kernels"], "tensor": "model.0.conv"},
}


def level_of(finding):
    return worst([finding])


def advice_of(finding):
    return [advice["text"] for advice in finding.get("advice", [])]


class Scenarios(Case):
    def test_what_was_reported_is_found(self):
        server = self.server()

        def play(case):
            done = subprocess.run([str(BIN / "client_scenarios"), server.address, case["id"]], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, f"{case['id']}: {done.stdout}{done.stderr}")
            run = urllib.parse.quote(case["id"], safe="")
            wait_for(f"the goodbye of {case['id']}",
                     lambda: server.api(f"runs/{run}")["run"]["status"] == "RUN_STATUS_FINISHED")
            return server.api(f"runs/{run}")["findings"]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            told = dict(zip((case["id"] for case in SCENARIOS), pool.map(play, SCENARIOS)))
        self.assertEqual(server.stop(), 0)

        self.assertEqual(len(SCENARIOS), 27)
        reached = fired = 0
        for case in SCENARIOS:
            found = told[case["id"]]
            expected = [f for f in found if f["rule"] in case["expect_any_of"] and level_of(f) >= WARNING]
            self.show(case, found, expected)
            reached += worst(found) >= LEVELS[case["level"]] if not case["control"] else worst(found) <= INFO
            fired += bool(expected)
            with self.subTest(case["id"]):
                if case["control"]:
                    self.assertLessEqual(worst(found), INFO, found)
                else:
                    self.assertTrue(expected, [(f["rule"], f["severity"], f["summary"]) for f in found])
                    self.agrees(EXPECTED[case["id"]], expected)
        silent = sum(case["control"] for case in SCENARIOS)
        print(f"{fired} of {len(SCENARIOS) - silent} fired as expected; the level was reached in {reached} of {len(SCENARIOS)} "
              f"({reached / len(SCENARIOS):.0%})")
        self.assertEqual(reached, len(SCENARIOS))

    def agrees(self, expected, findings):
        """Each thing that is expected is said by one of the expected findings."""
        first = expected["step"] if isinstance(expected["step"], tuple) else (expected["step"],) * 2
        steps = [int(f.get("first_step", 0)) for f in findings]
        self.assertTrue(any(first[0] <= step <= first[1] for step in steps), (steps, first))
        advice = " ".join(text for f in findings for text in advice_of(f))
        for words in expected["advice"]:
            self.assertRegex(advice, re.compile(words, re.DOTALL))
        if "summary" in expected:
            self.assertRegex(" ".join(f["summary"] for f in findings), expected["summary"])
        if "tensor" in expected:
            self.assertIn(expected["tensor"], [f["blame"]["tensor"] for f in findings if f.get("blame")])
        if "ranks" in expected:
            self.assertIn(expected["ranks"], [f.get("ranks") for f in findings])

    @staticmethod
    def show(case, found, expected):
        """For a person who compares what was said with what should be said."""
        level = case["level"] if not case["control"] else "control"
        print(f"\n== {case['id']} ({level}): expected {', '.join(case['expect_any_of']) or 'silence'} at {case['expect_at']}")

        def tell(label, text):
            print(textwrap.fill(f"{label:>9}: {text}", 150, subsequent_indent=" " * 11))

        tell("should", f"{case['diagnosis']} [{'; '.join(case['advice'])}]")
        verbose = bool(os.environ.get("SCALEWATCH_TEST_VERBOSE"))
        for finding in sorted(found, key=lambda f: (-level_of(f), f["rule"], f["subject"])):
            if finding not in expected and not verbose and level_of(finding) < WARNING:
                continue
            mark = "fired" if finding in expected else "also"
            severity = finding["severity"].removeprefix("SEVERITY_").lower()
            tell(mark, f"{finding['rule']} {severity} from step {finding.get('first_step', 0)}: {finding['summary']}")
            if finding.get("blame"):
                tell("blame", " ".join(f"{k}={v}" for k, v in finding["blame"].items() if v not in ("", "0", 0, [])))
            if finding in expected or verbose:
                for text in advice_of(finding):
                    tell("advice", text)


if __name__ == "__main__":
    main()
