import math
import torch
from torch.cuda.amp import autocast, GradScaler

class DiffusionTrainer(object):
    def __init__(self, diffusion, ema, *, lr=1e-4, accumulate=2, amp=True, steps=100000):
        super().__init__()
        self.model, self.ema = diffusion, ema
        self.accumulate, self.amp, self.steps = accumulate, amp, steps
        self.opt = torch.optim.Adam(diffusion.parameters(), lr=lr)
        self.scaler = GradScaler(enabled=amp)
        self.step = 0

    def save(self, milestone):
        torch.save({'step': self.step, 'model': self.model.state_dict(), 'opt': self.opt.state_dict(),
                    'ema': self.ema.state_dict(), 'scaler': self.scaler.state_dict()}, f'model-{milestone}.pt')

    def train(self):
        while self.step < self.steps:
            for i in range(self.accumulate):
                with autocast(enabled=self.amp):
                    loss = self.model(next(self.dl))
                    loss = loss / self.accumulate
                self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.opt)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad()
            if self.step != 0 and self.step % 10 == 0:
                self.ema.update()
            self.step += 1
