import torch

class Callback:
    def after_step(self, loop): ...

class SchedulerCallback(Callback):
    def __init__(self, sched):
        self.sched = sched

    def after_step(self, loop):
        if not loop.skipped:
            self.sched.step()

class Loop:
    def __init__(self, model, opt, callbacks=()):
        self.model, self.opt, self.callbacks = model, opt, callbacks
        self.scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 14)
        self.skipped = False

    def step(self, batch):
        with torch.amp.autocast("cuda", dtype=torch.half):
            loss = self.model(batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        scale = self.scaler.get_scale()
        self.scaler.update()
        self.skipped = self.scaler.get_scale() < scale
        self.opt.zero_grad()
        for callback in self.callbacks:
            callback.after_step(self)
