import torch
from torch import nn


class BaseTrainer:
    def __init__(self, cfg):
        self.args = cfg
        self.amp = bool(cfg.amp)
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.amp) if TORCH_2_4 else torch.cuda.amp.GradScaler(enabled=self.amp)

    def _do_train(self):
        last_opt_step = -1
        while True:
            self.scheduler.step()
            for i, batch in enumerate(self.train_loader):
                ni = i + self.nb * self.epoch
                with torch.autocast("cuda", enabled=self.amp):
                    batch = self.preprocess_batch(batch)
                    loss, self.loss_items = self.model(batch)
                    self.loss = loss.sum()
                self.scaler.scale(self.loss).backward()
                if ni - last_opt_step >= self.accumulate:
                    self.optimizer_step()
                    last_opt_step = ni
            self.save_model()

    def optimizer_step(self):
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=10.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        if self.ema:
            self.ema.update(self.model)

    def save_model(self):
        torch.save({
            "ema": self.ema.ema.half(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
        }, self.last)
