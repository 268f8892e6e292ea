"""What scalewatch.attach costs a PyTorch trainer on the CPU, in one run, beside other ways to look at the same gradients.

Models: a small ResNet (18 layers' worth of convolutions on 32 x 32 images) and a small transformer, fp16 autocast and GradScaler, one
thread. Every gradient at every attempt. The memory traffic itself is one read of all gradients, taken as the time of reading them
with a vectorised sum; beyond it at most 2% of a step are allowed, and 0.5 ms of Python for 1,000 tensors.

Ways: nothing; scalewatch (gradients alone, and its defaults); the same statistics by plain torch calls; wandb.watch offline and Hugging
Face's DebugUnderflowOverflow where they are installed. Steps of all ways alternate, so that a busy machine is busy for all.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import torch

import scalewatch

F = torch.nn.functional
torch.set_num_threads(1)


class Block(torch.nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(out)
        self.conv2 = torch.nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(out)
        self.short = torch.nn.Conv2d(channels, out, 1, stride, bias=False) if stride > 1 or channels != out else torch.nn.Identity()

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.short(x))


def resnet():
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU()]
    channels = 16
    for out, stride in ((16, 1), (32, 2), (64, 2), (128, 2)):
        layers += [Block(channels, out, stride), Block(out, out, 1)]
        channels = out
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(128, 10))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(1000, 128)
        layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 4)
        self.head = torch.nn.Linear(128, 1000)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


def resnet_batch():
    return torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))


def transformer_batch():
    tokens = torch.randint(0, 1000, (4, 64))
    return tokens, tokens.roll(1, 1)


class Loop:
    """One trainer with one way of looking."""

    def __init__(self, make, batch):
        self.model, self.batch = make(), batch()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        self.times = []
        self.before_step = lambda: None
        self.ending = lambda: None
        self.note = ""

    def step(self):
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            output = self.model(self.batch[0])
            loss = F.cross_entropy(output.flatten(0, -2), self.batch[1].flatten())
        self.scaler.scale(loss).backward()
        self.before_step()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.times.append(time.perf_counter() - begin)


def with_scalewatch(loop, every, server):
    watch = scalewatch.attach(loop.model, loop.optimizer, loop.scaler, run=f"bench-{id(loop)}", server=server, every=every)

    def end():
        stats = watch.stats()
        loop.note = f"{stats['measure_ns'] / max(1, stats['attempts']) / 1e6:.2f} ms a step in passes over data"
        loop.measure_ms = stats["measure_ns"] / max(1, stats["attempts"]) / 1e6
        watch.close(0)
    loop.ending = end


def with_torch(loop):
    """The statistics of a record by plain torch calls, read once a tensor."""
    def look():
        for parameter in loop.model.parameters():
            g = parameter.grad
            finite = g[g.isfinite()]
            size = finite.abs()
            nonzero = size[size > 0]
            torch.stack([g.isnan().sum().float(), (g == float("inf")).sum().float(), (g == float("-inf")).sum().float(),
                         (g == 0).sum().float(), finite.min(), finite.max(), nonzero.min() if len(nonzero) else g.new_zeros(()),
                         finite.sum(), finite.square().sum(), (nonzero < 2.0 ** -14).sum().float(),
                         (nonzero <= 2.0 ** -25).sum().float(), (size >= 65520).sum().float()]).tolist()
    loop.before_step = look


def with_wandb(loop):
    import wandb
    run = wandb.init(mode="offline", dir=tempfile.mkdtemp(prefix="wandb-"), settings=wandb.Settings(silent=True))
    run.watch(loop.model, log="gradients", log_freq=1)
    loop.before_step = lambda: run.log({})
    loop.ending = run.finish


def with_hugging_face(loop):
    from transformers.debug_utils import DebugUnderflowOverflow
    DebugUnderflowOverflow(loop.model)


def read_ms(model):
    """A plain vectorised read of all gradients."""
    gradients = [p.grad for p in model.parameters()]
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        for gradient in gradients:
            gradient.sum()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


def compare(name, make, batch, steps, server):
    gradients_only = {"parameter": 0, "optimizer_state": 0, "buffer": 0}
    ways = {"nothing": lambda loop: None, "scalewatch, gradients": lambda loop: with_scalewatch(loop, gradients_only, server),
            "scalewatch, defaults": lambda loop: with_scalewatch(loop, None, server), "plain torch calls": with_torch,
            "wandb.watch offline": with_wandb, "DebugUnderflowOverflow": with_hugging_face}
    loops, missing = {}, {}
    for way, put in ways.items():
        loop = Loop(make, batch)
        try:
            put(loop)
        except ImportError as error:
            missing[way] = str(error)
            continue
        loops[way] = loop
    for step in range(steps + 3):
        for loop in loops.values():
            loop.step()
    base = statistics.median(loops["nothing"].times[3:])
    read = read_ms(loops["nothing"].model)
    tensors = sum(1 for _ in loops["nothing"].model.parameters())
    rows = {}
    for way, loop in loops.items():
        loop.ending()
        median = 1e3 * statistics.median(loop.times[3:])
        rows[way] = {"step_ms": round(median, 3), "more_ms": round(median - 1e3 * base, 3),
                     "more_percent": round(100 * (median / (1e3 * base) - 1), 2), "note": loop.note}
        if way == "scalewatch, gradients":
            # The steps' own noise is larger than what is looked for: also what the hooks took, measured within.
            rows[way]["beyond_read_percent"] = round((loop.measure_ms - read) / (1e3 * base) * 100, 2)
    return {"model": name, "tensors": tensors, "megabytes": round(4e-6 * sum(p.numel() for p in loops["nothing"].model.parameters()), 1),
            "read_ms": round(read, 3), "ways": rows, "missing": missing}


def python_cost(server):
    """Processor time of all hooks of an attempt with 1,000 tiny tensors, and the same without the calls into the client."""
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2)) for _ in range(1000)])
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.0), torch.amp.GradScaler("cpu", init_scale=1024.0)
    watch = scalewatch.attach(model, optimizer, scaler, run="bench-python", server=server, every={"parameter": 0})
    for parameter in model:
        parameter.grad = torch.ones(2)
    inside = [0.0]

    def timed(function):
        def call(*arguments):
            begin = time.thread_time()
            result = function(*arguments)
            inside[0] += time.thread_time() - begin
            return result
        return call

    made = watch._started()
    for name in ("observe_many", "wants_any", "begin_attempt", "end_attempt", "measure_device"):
        setattr(made, name, timed(getattr(made, name)))
    scaled, mine, times = torch.ones(()), watch.scalers[0], []
    for number in range(160):
        inside[0], begin = 0.0, time.thread_time()
        mine._before_scale(scaled)
        mine._moment_a(watch.optimizers[0])
        watch.finish_attempt()
        spent = time.thread_time() - begin
        if number >= 10:
            times.append((spent, spent - inside[0]))
        time.sleep(0.006)
    watch.close(0)
    return {"hooks_ms": round(1e3 * statistics.median(t for t, _ in times), 3),
            "python_ms": round(1e3 * statistics.median(t for _, t in times), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--server", default="127.0.0.1:1", help="host:port; by default nobody is there")
    options = parser.parse_args()
    told = {"python": python_cost(options.server),
            "models": [compare("resnet", resnet, resnet_batch, options.steps, options.server),
                       compare("transformer", Transformer, transformer_batch, options.steps, options.server)]}
    if options.json:
        print(json.dumps(told, indent=1))
        return
    python = told["python"]
    print(f"Python a 1,000 tensors and attempt: {python['python_ms']:.3f} ms (goal 0.5), with the client's own work "
          f"{python['hooks_ms']:.3f} ms")
    for model in told["models"]:
        print(f"{model['model']}: {model['tensors']} gradients, {model['megabytes']} MB, read once in {model['read_ms']} ms")
        for way, row in model["ways"].items():
            beyond = f", passes beyond one read {row['beyond_read_percent']}% of a step (goal 2)" if "beyond_read_percent" in row else ""
            print(f"  {way:24} {row['step_ms']:9.2f} ms a step, {row['more_percent']:+7.2f}%  {row['note']}{beyond}")
        for way, why in model["missing"].items():
            print(f"  {way:24} not measured: {why}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
