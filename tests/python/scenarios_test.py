"""The reports of tests/data/scenarios.json that are PyTorch's, made again with PyTorch: what was expected of a good monitor is what
it says. What the integration tests play through the C++ API are here real layers, real autocast and the real GradScaler."""
import importlib.util
import json
import re
import unittest

import torch

from common import F, Lab, ROOT, batches, half, network, pace, scaler_of

CASES = {case["id"]: case for case in json.loads((ROOT / "tests/data/scenarios.json").read_text())}
_spec = importlib.util.spec_from_file_location("integration_scenarios", ROOT / "tests/integration/scenarios_test.py")
_integration = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_integration)
EXPECTED = _integration.EXPECTED
LEVELS = {"info": 1, "warning": 2, "critical": 3}


class Net(torch.nn.Module):
    """Named layers in a row; `inside`: name -> function of (step, output), applied within the layer's place."""

    def __init__(self, inside=None, **layers):
        super().__init__()
        torch.manual_seed(0)
        self.step, self.inside = 0, inside or {}
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.order = list(layers)

    def forward(self, x):
        self.step += 1
        for name in self.order:
            x = getattr(self, name)(x)
            if name in self.inside:
                x = self.inside[name](self.step, x)
        return x


def mlp(**options):
    return Net(a=torch.nn.Linear(64, 32, **options), b=torch.nn.ReLU(), c=torch.nn.Linear(32, 10))


class Scenarios(Lab):
    def run_id(self):
        return self.id().rpartition("test_")[2].replace("_", "-")

    def where(self, **options):
        return {**super().where(), "run": self.run_id(), **options}

    def expected(self, watch, advice=True, tensor=None, words=None):
        """One of the expected rules at the level of the case, with the advice that the integration test asks for as well."""
        case = CASES[self.run_id()]
        everything = self.findings(watch)
        found = [f for f in everything if f.rule in case["expect_any_of"] and LEVELS[f.severity] >= 2]
        self.assertTrue(found, [(f.rule, f.severity, f.summary) for f in everything])
        self.assertGreaterEqual(max(LEVELS[f.severity] for f in everything), LEVELS[case["level"]], everything)
        text = " ".join(a.text for f in found for a in f.advice)
        for regex in EXPECTED[self.run_id()]["advice"] if advice else ():
            self.assertRegex(text, re.compile(regex, re.DOTALL))
        if tensor:
            self.assertIn(tensor, [f.tensor for f in found])
        if words:
            self.assertRegex(" ".join(f.summary for f in found), words)
        return found

    def loop(self, model, watch, optimizer, scaler, steps, loss_of=None, before_step=None, after=None, size=16, first=1):
        for step, (images, classes) in enumerate(batches(steps, size), first):
            watch.set_step(step)
            optimizer.zero_grad()
            with half():
                output = model(images)
                loss = F.cross_entropy(output.float(), classes) if loss_of is None else loss_of(step, output, classes)
            if scaler is None:
                watch.set_loss(loss)
                loss.backward()
            else:
                scaler.scale(loss).backward()
            if before_step:
                before_step(step)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            if after:
                after(step)
            pace(watch, step)

    def usual(self, model=None, lr=1e-3, optimizer=None, scaler="default", **options):
        model = model or mlp()
        optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=lr)
        scaler = scaler_of() if scaler == "default" else scaler
        return model, optimizer, scaler, self.attach(model, optimizer, scaler, **options)

    # -- the scale ----------------------------------------------------------------------------------------------------------------

    def test_espnet_3237(self):
        """A loss summed in fp16 under autocast: long utterances, 8 of 100, overflow it."""
        model, optimizer, scaler, watch = self.usual(lr=1e-6)
        self.loop(model, watch, optimizer, scaler, 100,
                  lambda step, y, _: ((y * (60 if step % 12 == 7 else 1)).square() * (500 if step % 12 == 7 else 1)).sum())
        self.expected(watch)

    def test_pytorch_98828(self):
        model = torch.nn.Linear(4, 1)
        _, optimizer, scaler, watch = self.usual(model, scaler=scaler_of(init_scale=2.0 ** 16, growth_interval=1))
        for step in range(1, 119):
            optimizer.zero_grad()
            scaler.scale((model(torch.ones(1, 4)) * 1e-30).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            pace(watch, step)
        self.expected(watch)

    def test_pytorch_157436(self):
        """update() within an inner loop: 91 halvings in what the user takes for one step."""
        model, optimizer, scaler, watch = self.usual(scaler=scaler_of(init_scale=2.0 ** 17))
        self.loop(model, watch, optimizer, scaler, 230)
        watch.set_step(231)
        for inner, (images, classes) in enumerate(batches(91, 16), 1):
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(images), classes)).backward()
            model.a.weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
            pace(watch, inner)
        self.assertEqual(scaler.get_scale(), 2.0 ** -74)
        self.expected(watch, advice=False)

    def test_co_tracker_101(self):
        """The optimizer's state is restored, the scaler's is not: it begins at 65536 again, where 16384 was right."""
        saved = {}
        for first, steps in ((1, 300), (300, 40)):
            model = mlp()
            optimizer, scaler = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9), scaler_of(init_scale=2.0 ** 16)
            watch = self.attach(model, optimizer, scaler)
            if saved:
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])

            def overflow(_):
                if scaler.get_scale() > 2.0 ** 14:
                    model.c.weight.grad[0, 0] = float("inf")
            self.loop(model, watch, optimizer, scaler, steps, before_step=overflow, first=first)
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            self.assertTrue(watch.close(20))
        found = self.expected(watch, words=r"2\^16.*2\^14")
        self.assertEqual(found[0].first_step, 300)
        self.assertIn("scaler_not_restored", [f.subject for f in watch.findings() if f.rule == "Misuse"])

    # -- wrong use ----------------------------------------------------------------------------------------------------------------

    def test_gof_2(self):
        """The generator's graph is cut. step() asserts; then the user takes the assertion out, and nothing is ever stepped."""
        class Cut(torch.amp.GradScaler):
            def step(self, optimizer, *args, **kwargs):
                state = self._per_optimizer_states[id(optimizer)]
                self.unscale_(optimizer)
                return self._maybe_opt_step(optimizer, state, *args, **kwargs)

        generator, judge = torch.nn.Linear(8, 64), torch.nn.Linear(64, 1)
        for make in (torch.amp.GradScaler, Cut):
            to_g, to_d = torch.optim.Adam(generator.parameters()), torch.optim.Adam(judge.parameters())
            scaler = make("cpu", init_scale=1024.0)
            watch = self.attach({"G": generator, "D": judge}, {"optimizer_G": to_g, "optimizer_D": to_d}, scaler)
            for step, (images, _) in enumerate(batches(60, 16), 1):
                to_d.zero_grad()
                with half():
                    fake = generator(torch.randn(16, 8)).detach()  # here it is cut
                    loss = F.softplus(judge(fake)).mean() + F.softplus(-judge(images)).mean()
                scaler.scale(loss).backward()
                scaler.step(to_d)
                with half():
                    loss = F.softplus(-judge(fake)).mean()
                scaler.scale(loss)
                if make is torch.amp.GradScaler:
                    with self.assertRaisesRegex(AssertionError, "No inf checks were recorded for this optimizer"):
                        scaler.step(to_g)
                    break
                scaler.step(to_g)
                scaler.update()
                pace(watch, step)
            found = self.expected(watch, words="0 of 2 parameters of optimizer_G")
            kind = "no_inf_checks" if make is torch.amp.GradScaler else "no_gradients"
            self.assertIn(kind, [f.subject for f in found])

    def test_lightning_7975(self):
        models = [mlp(), mlp()]
        optimizers = [torch.optim.Adam(m.parameters()) for m in models]
        scaler = scaler_of()
        watch = self.attach(models, optimizers, scaler)
        for step, (images, classes) in enumerate(batches(10, 16), 1):
            for number, (model, optimizer) in enumerate(zip(models, optimizers)):
                optimizer.zero_grad()
                if step < 10 or number == 0:  # training_step returns None
                    with half():
                        loss = F.cross_entropy(model(images), classes)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                else:
                    self.assertRaises(AssertionError, scaler.step, optimizer)
            if step < 10:
                scaler.update()
            pace(watch, step)
        found = self.expected(watch, words="optimizer_1")
        self.assertEqual(found[0].first_step, 10)

    def test_accelerate_641(self):
        model, optimizer, scaler, watch = self.usual()
        for images, classes in batches(2, 16):
            with half():
                loss = F.cross_entropy(model(images), classes) / 2
            scaler.scale(loss).backward()
            if scaler._per_optimizer_states[id(optimizer)]["stage"].value:
                self.assertRaises(RuntimeError, scaler.unscale_, optimizer)
            else:
                scaler.unscale_(optimizer)
        self.assertEqual(self.expected(watch)[0].first_step, 1)

    def test_adaface_127(self):
        class Half(torch.nn.PReLU):  # one layer of an fp32 model that was changed to fp16
            def forward(self, x):
                return F.prelu(x.half(), self.weight.half()).float()

        model = Net(input_layer=torch.nn.Linear(64, 32), PReLU=Half(), body=torch.nn.Linear(32, 10))
        model.PReLU.half()
        _, optimizer, scaler, watch = self.usual(model)
        with self.assertRaisesRegex(ValueError, "Attempting to unscale FP16 gradients"):
            self.loop(model, watch, optimizer, scaler, 1)
        self.expected(watch, words=r"PReLU\.weight")

    def test_accelerate_4242(self):
        """A fused optimizer is called at each attempt, and the scheduler goes on over what it skips inside."""
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=100)
        _, _, scaler, watch = self.usual(model, optimizer=optimizer)

        def overflow(step):
            if step > 10 and step % 13 == 5:
                model.a.weight.grad[0, 0] = float("inf")
        self.loop(model, watch, optimizer, scaler, 100, before_step=overflow, after=lambda _: scheduler.step())
        self.expected(watch)

    def test_pytorch_40907(self):
        model, optimizer, scaler, watch = self.usual(lr=0.01, scaler=scaler_of(init_scale=2.0 ** 16))
        self.loop(model, watch, optimizer, scaler, 30,
                  before_step=lambda _: torch.nn.utils.clip_grad_norm_(model.parameters(), 12))
        self.expected(watch, words="12")

    # -- ranks: each a model and a watch of its own ----------------------------------------------------------------------------------

    def ranks(self, count, **options):
        made = []
        for rank in range(count):
            model = mlp()
            optimizer, scaler = torch.optim.SGD(model.parameters(), lr=1e-3), scaler_of(**options)
            made.append((model, optimizer, scaler, self.attach(model, optimizer, scaler, rank=rank, world_size=count)))
        return made

    def together(self, ranks, steps, before_step=lambda rank, step: None):
        for step, (images, classes) in enumerate(batches(steps, 16), 1):
            for rank, (model, optimizer, scaler, watch) in enumerate(ranks):
                watch.set_step(step)
                optimizer.zero_grad()
                with half():
                    loss = F.cross_entropy(model(images), classes)
                scaler.scale(loss).backward()
                before_step(rank, step)
                scaler.step(optimizer)
                scaler.update()
                if step % 4 == 0:
                    watch.wait_durable(20)

    def close_others(self, ranks):
        for *_, watch in ranks[1:]:
            watch.close(20)
        return ranks[0][3]

    def test_weathergen_356(self):
        """One rank's loss is a constant without a graph; the others never end that step."""
        ranks = self.ranks(4)
        self.together(ranks, 40)
        _, optimizer, scaler, watch = ranks[2]
        watch.set_step(41)
        optimizer.zero_grad()
        scaler.scale(torch.zeros(()))
        self.assertRaises(AssertionError, scaler.step, optimizer)
        found = self.expected(self.close_others(ranks), advice=False)  # of the samples nobody told this watch
        self.assertEqual((found[0].ranks, found[0].first_step), ([2], 41))

    def test_pytorch_90057(self):
        """Growth counts local steps: the rank with more of them grows first."""
        ranks = self.ranks(2, init_scale=2.0 ** 16, growth_interval=50)
        extra = next(batches(1, 16))
        for _ in range(20):
            model, optimizer, scaler, watch = ranks[0]
            watch.closed = True  # uneven inputs, before this watch looked
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(extra[0]), extra[1])).backward()
            scaler.step(optimizer)
            scaler.update()
            watch.closed = False
        self.together(ranks, 45)
        found = self.expected(self.close_others(ranks), words=r"2\^16 against 2\^17")
        self.assertEqual(found[0].first_step, 30)

    def test_fairscale_179(self):
        ranks = self.ranks(3)

        def overflow(rank, step):
            if (rank, step) == (1, 30):
                ranks[1][0].c.weight.grad[0, 0] = float("inf")
        self.together(ranks, 30, overflow)
        found = self.expected(self.close_others(ranks), words="found_inf of")
        self.assertIn([1], [f.ranks for f in found])

    # -- values too large -------------------------------------------------------------------------------------------------------------

    def test_transformers_5651(self):
        """The output of wo would be 66246.39: 1% too large for fp16."""
        model = Net(embed=torch.nn.Linear(64, 32), wo=torch.nn.Linear(32, 32), norm=torch.nn.LayerNorm(32),
                    lm_head=torch.nn.Linear(32, 10))
        _, optimizer, scaler, watch = self.usual(model, lr=1e-6, activations="*")

        def grow(step):
            with torch.no_grad():
                model.wo.bias[3] = 66246.39 if step >= 33 else 200.0 * step
        self.loop(model, watch, optimizer, scaler, 40, after=grow)
        self.expected(watch, tensor="wo")

    def test_transformers_24638(self):
        """One dot product of q and k overflows once; softmax makes NaN of it."""
        class Attention(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.q, self.k, self.scores = torch.nn.Linear(64, 16), torch.nn.Linear(64, 16), torch.nn.Identity()
                self.softmax, self.step = torch.nn.Softmax(-1), 0

            def forward(self, x):
                self.step += 1
                q, k = self.q(x), self.k(x)
                if self.step == 50:
                    q, k = torch.cat([q[:1] * 1e3, q[1:]]), k * 1e3
                return self.softmax(self.scores(q @ k.t()) - 1) @ x

        model = Net(attn=Attention(), mlp=torch.nn.Linear(64, 32), lm_head=torch.nn.Linear(32, 10))
        _, optimizer, scaler, watch = self.usual(model, lr=1e-4, activations="*")
        self.loop(model, watch, optimizer, scaler, 60)
        found = self.expected(watch)
        self.assertIn((50, "attn.scores"), [(f.first_step, f.tensor) for f in found])

    def test_unsloth_zoo_866(self):
        """The loss is finite; backward overflows in fp16 below one layer, at three steps."""
        class Steep(torch.autograd.Function):
            """A step of the residual stream whose gradient is too large for fp16."""
            @staticmethod
            def forward(ctx, x, factor):
                ctx.factor = factor
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                return (gradient.half() * ctx.factor).to(gradient.dtype), None

        model = Net(embed_tokens=torch.nn.Linear(64, 32), q_norm=torch.nn.Linear(32, 32), experts=torch.nn.Linear(32, 32),
                    lm_head=torch.nn.Linear(32, 10), inside={"q_norm": lambda step, y: Steep.apply(y, 6e4 if step in (2, 4, 6) else 1.0)})
        _, optimizer, scaler, watch = self.usual(model, lr=1e-5)
        self.loop(model, watch, optimizer, scaler, 40)
        found = self.expected(watch, advice=False)
        self.assertRegex(found[0].tensor, r"^q_norm\.")
        self.assertRegex(" ".join(a.text for f in found for a in f.advice), r"q_norm.* in fp32")

    def test_yolov5_7908(self):
        """The first convolution gives NaN in half precision, whatever the batch."""
        class Convolution(torch.nn.Linear):
            def forward(self, x):
                return super().forward(x) * float("nan") if torch.is_autocast_enabled("cpu") else super().forward(x)

        model = Net(conv=Convolution(64, 32), relu=torch.nn.ReLU(), head=torch.nn.Linear(32, 10))
        _, optimizer, scaler, watch = self.usual(model, activations="*")
        self.loop(model, watch, optimizer, scaler, 10)
        self.expected(watch, tensor="conv")

    # -- fp16 without a scaler -----------------------------------------------------------------------------------------------------------

    def test_nanogpt_167(self):
        model = network()
        _, optimizer, _, watch = self.usual(model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-5), scaler=None)

        def overflow(step):
            if step == 9:
                model[0].weight.grad[0, 0] = float("inf")
        self.loop(model, watch, optimizer, None, 12, before_step=overflow)
        found = self.expected(watch)
        self.assertIn(("MissingScaler", 1), [(f.rule, f.first_attempt) for f in found])
        self.assertIn("NonFiniteWeights", [f.rule for f in found])

    def test_pytorch_147437(self):
        """Everything in fp16, Adam's state too: after the first step v is 0 and so is eps, and 0 / 0 is NaN."""
        model = Net(feature_net=torch.nn.Linear(64, 10)).half()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        watch = self.attach(model, optimizer)
        for images, classes in batches(3, 16):
            optimizer.zero_grad()
            loss = F.cross_entropy((model(images.half()) * 1e-3).float(), classes)
            watch.set_loss(loss)
            loss.backward()
            optimizer.step()
        found = self.expected(watch)
        self.assertIn(("NonFiniteWeights", 1), [(f.rule, f.first_attempt) for f in found])

    def test_open_rig3r_35(self):
        model, optimizer, _, watch = self.usual(scaler=None)
        self.loop(model, watch, optimizer, None, 30)
        self.expected(watch)


if __name__ == "__main__":
    unittest.main(verbosity=2)
