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
        self.times, self.cpu, self.passes = [], [], []  # seconds: of a step, of its thread's processor, of it in passes over data
        self.before_step = lambda: None
        self.ending = lambda: None
        self.note = ""

    def step(self):
        begin, cpu = time.perf_counter(), time.thread_time()
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            output = self.model(self.batch[0])
            loss = F.cross_entropy(output.flatten(0, -2), self.batch[1].flatten())
        self.scaler.scale(loss).backward()
        self.before_step()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.times.append(time.perf_counter() - begin)
        self.cpu.append(time.thread_time() - cpu)


def with_scalewatch(loop, every, server):
    watch = scalewatch.attach(loop.model, loop.optimizer, loop.scaler, run=f"bench-{id(loop)}", server=server, every=every)
    made = watch._started()
    observe = made.observe_many

    def clocked(*arguments):
        begin = time.thread_time()
        observe(*arguments)
        loop.passes.append(time.thread_time() - begin)
    made.observe_many = clocked

    def end():
        loop.pass_ms = 1e3 * statistics.median(loop.passes)
        loop.note = f"{loop.pass_ms:.2f} ms in a pass over data"
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
    """Processor time of a plain vectorised read of all gradients."""
    gradients = [p.grad for p in model.parameters()]
    times = []
    for _ in range(15):
        begin = time.thread_time()
        for gradient in gradients:
            gradient.sum()
        times.append(time.thread_time() - begin)
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
    base, base_cpu = (1e3 * statistics.median(times[3:]) for times in (loops["nothing"].times, loops["nothing"].cpu))
    read = read_ms(loops["nothing"].model)
    tensors = sum(1 for _ in loops["nothing"].model.parameters())
    rows = {}
    for way, loop in loops.items():
        loop.ending()
        median, cpu = (1e3 * statistics.median(times[3:]) for times in (loop.times, loop.cpu))
        rows[way] = {"step_ms": round(median, 3), "more_percent": round(100 * (median / base - 1), 2), "cpu_ms": round(cpu, 3),
                     "more_cpu_percent": round(100 * (cpu / base_cpu - 1), 2), "note": loop.note}
        if way == "scalewatch, gradients":
            # The steps' own noise is larger than what is looked for: also what the hooks took, measured within.
            rows[way]["beyond_read_percent"] = round((loop.pass_ms - read) / base_cpu * 100, 2)
    return {"model": name, "tensors": tensors, "megabytes": round(4e-6 * sum(p.numel() for p in loops["nothing"].model.parameters()), 1),
            "read_ms": round(read, 3), "ways": rows, "missing": missing}


def thousand():
    """1,000 parameters of two elements, their optimizer and scaler."""
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2)) for _ in range(1000)])
    return model, torch.optim.SGD(model.parameters(), lr=0.0), torch.amp.GradScaler("cpu", init_scale=1024.0)


def backward(model, optimizer):
    """Gradients that are made anew, as in every loop that calls zero_grad()."""
    optimizer.zero_grad()
    torch.stack(list(model)).sum().backward()


def python_cost(server):
    """Processor time of an attempt with 1,000 tiny tensors, without the calls into the client, right after a backward:
    more = what scale, step and update take longer than in a loop that nobody watches: the trainer's extra cost.
    hooks = what is hooked does nothing: all that Python does, of which the scaler and the optimizer do a part anyway when they ask for
    the same gradients. again = the same at once a second time: gradients where they were, all of it in the processor's caches.
    Beside the median also the least: a busy machine's caches are shared."""
    model, optimizer, scaler = thousand()
    plain_model, plain_optimizer, plain_scaler = thousand()
    backward(model, optimizer)
    watch = scalewatch.attach(model, optimizer, scaler, run="bench-python", server=server, every={"parameter": 0})
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
    loss, mine = torch.ones(()), watch._scalers[0]
    took = {"watched": [], "plain": [], "hooks": [], "again": [], "with_client": []}

    def clocked(name, act):
        inside[0], begin = 0.0, time.thread_time()
        act()
        spent = time.thread_time() - begin
        took[name].append(1e3 * (spent - inside[0]))
        return 1e3 * spent

    def hooks():
        mine._on_scale(lambda outputs: outputs, loss)
        mine._on_step(lambda stepped: None, optimizer)
        mine._on_update(lambda: None)

    def attempt(its_optimizer, its_scaler):
        its_scaler.scale(loss)
        its_scaler.step(its_optimizer)
        its_scaler.update()

    for _ in range(160):
        backward(model, optimizer)
        clocked("watched", lambda: attempt(optimizer, scaler))
        time.sleep(0.006)
        backward(plain_model, plain_optimizer)
        clocked("plain", lambda: attempt(plain_optimizer, plain_scaler))
        time.sleep(0.006)
        backward(model, optimizer)
        took["with_client"].append(clocked("hooks", hooks))
        clocked("again", hooks)
        time.sleep(0.006)
    watch.close(0)
    took = {name: times[10:] for name, times in took.items()}
    took["more"] = [watched - plain for watched, plain in zip(took["watched"], took["plain"])]
    told = {f"{name}_ms": round(statistics.median(times), 3) for name, times in took.items()}
    told["more_least_ms"] = round(min(took["watched"]) - min(took["plain"]), 3)
    told["hooks_least_ms"] = round(min(took["hooks"]), 3)
    return told


def beside(goal, figure):
    """A goal as it stands beside its figure."""
    return f"goal at most {goal}: {'reached' if figure <= goal else 'MISSED'}"


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
    print(f"Python a 1,000 tensors and attempt: the trainer's extra cost, scale, step and update watched less unwatched: "
          f"{python['more_ms']:.3f} ms on {python['plain_ms']:.3f} (least {python['more_least_ms']:.3f}; {beside(0.5, python['more_ms'])})")
    print(f"  the hooks alone {python['hooks_ms']:.3f} ms (least {python['hooks_least_ms']:.3f}), the same at once again "
          f"{python['again_ms']:.3f} ms; with the client's own work {python['with_client_ms']:.3f} ms")
    for model in told["models"]:
        print(f"{model['model']}: {model['tensors']} gradients, {model['megabytes']} MB, read once in {model['read_ms']} ms")
        for way, row in model["ways"].items():
            beyond = ""
            if "beyond_read_percent" in row:
                beyond = f", beyond one read {row['beyond_read_percent']}% of a step ({beside(2, row['beyond_read_percent'])})"
            print(f"  {way:24} {row['step_ms']:9.2f} ms a step, {row['more_percent']:+7.2f}%; of processor time {row['cpu_ms']:9.2f} ms, "
                  f"{row['more_cpu_percent']:+7.2f}%  {row['note']}{beyond}")
        for way, why in model["missing"].items():
            print(f"  {way:24} not measured: {why}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
