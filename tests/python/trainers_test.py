"""One line in Hugging Face's Trainer and in Lightning's."""
import pathlib
import tempfile
import unittest
import warnings

import torch

from common import CLASSES, F, IMAGES, Lab

warnings.filterwarnings("ignore")


class Trainers(Lab):
    def test_hugging_face(self):
        import transformers
        from scalewatch.huggingface import ScalewatchCallback
        torch.manual_seed(0)
        config = transformers.BertConfig(vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                                         max_position_embeddings=80, num_labels=10)
        model = transformers.BertForSequenceClassification(config)
        rows = [{"input_ids": (IMAGES[i] * 16).long(), "labels": int(CLASSES[i])} for i in range(256)]
        callback = ScalewatchCallback(**self.where(activations="*.attention"))
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(folder, per_device_train_batch_size=8, max_steps=8, gradient_accumulation_steps=2,
                                                       report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, bf16=True,
                                                       dataloader_pin_memory=False)
            transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[callback]).train()
        self.assertTrue(callback.watch.closed)
        self.assert_silent(callback.watch)
        run = callback.watch.questions.summary()
        self.assertEqual([int(run[k]) for k in ("attempts", "applied", "last_step")], [8, 8, 8])
        self.assertEqual(run["compute_dtype"], "DTYPE_BF16")
        self.assertTrue(1 < run["loss"] < 4, run["loss"])
        points = callback.watch.questions.attempt()
        self.assertIn("bert.encoder.layer.1.attention.self.query.weight", {p.tensor for p in points if p.role == "gradient"})
        self.assertIn("bert.encoder.layer.0.attention.0", {p.tensor for p in points if p.role == "activation"})

    def test_accelerate(self):
        """Its prepared model and optimizer: autocast, scale, unscale, step and update are its own. On a CPU it makes no scaler and computes
        in fp32 whatever is asked for, so the two things that it would have set on a GPU are set here."""
        import accelerate
        from accelerate.state import AcceleratorState
        AcceleratorState._reset_state(reset_partial_state=True)
        self.addCleanup(AcceleratorState._reset_state, reset_partial_state=True)
        accelerator = accelerate.Accelerator(cpu=True, mixed_precision="fp16", gradient_accumulation_steps=2)
        self.assertIsNone(accelerator.scaler)
        accelerator.native_amp, accelerator.scaler = True, torch.amp.GradScaler("cpu", init_scale=1024.0)
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
        model, optimizer = accelerator.prepare(net, torch.optim.Adam(net.parameters(), lr=1e-3))
        watch = self.attach(model, optimizer, accelerator.scaler)
        for step in range(1, 25):
            with accelerator.accumulate(model):
                at = slice(32 * step, 32 * step + 32)
                accelerator.backward(F.cross_entropy(model(IMAGES[at]), CLASSES[at]))
                if step == 16:
                    net[0].weight.grad[0, 0] = float("inf")
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 10.0)
                optimizer.step()
                optimizer.zero_grad()
        self.assertTrue(optimizer.scaler is accelerator.scaler and not optimizer.step_was_skipped)
        self.assert_silent(watch)
        run = watch.questions.summary()
        self.assertEqual([int(run[k]) for k in ("attempts", "applied", "skipped")], [12, 11, 1])
        self.assertEqual(run["compute_dtype"], "DTYPE_FP16")
        self.assertEqual({p.scale for p in watch.questions.attempt(8) if p.role == "gradient"}, {1024.0})

    def lightning_module(self):
        import pytorch_lightning

        class Digits(pytorch_lightning.LightningModule):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

            def training_step(self, batch, _):
                return F.cross_entropy(self.net(batch[0]), batch[1])

            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters(), lr=1e-3)

        return pytorch_lightning, Digits()

    def test_lightning(self):
        lightning, _ = self.lightning_module()
        from pytorch_lightning.plugins.precision import MixedPrecision
        from scalewatch.lightning import ScalewatchCallback
        half_precision = MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu", init_scale=1024.0))
        for name, precision in (("fp16", {"plugins": [half_precision]}), ("bf16", {"precision": "bf16-mixed"})):
            with self.subTest(name):
                _, module = self.lightning_module()
                callback = ScalewatchCallback(**self.where(run=f"lightning-{name}"))
                data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(IMAGES[:640], CLASSES[:640]), batch_size=32)
                with tempfile.TemporaryDirectory() as folder:
                    trainer = lightning.Trainer(max_steps=20, accelerator="cpu", logger=False, enable_checkpointing=False,
                                                enable_progress_bar=False, enable_model_summary=False, callbacks=[callback],
                                                default_root_dir=pathlib.Path(folder), **precision)
                    trainer.fit(module, data)
                self.assertTrue(callback.watch.closed)
                self.assert_silent(callback.watch)
                run = callback.watch.questions.summary()
                self.assertEqual([int(run[k]) for k in ("attempts", "applied", "last_step")], [20, 20, 20])
                self.assertEqual(run["compute_dtype"], f"DTYPE_{name.upper()}")
                self.assertTrue(1 < run["loss"] < 4, run["loss"])
                scale = {p.scale for p in callback.watch.questions.attempt() if p.role == "gradient"}
                self.assertEqual(scale, {1024.0 if name == "fp16" else 1.0})


if __name__ == "__main__":
    unittest.main(verbosity=2)
