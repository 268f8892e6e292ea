import torch
from torch.cuda.amp import GradScaler, autocast


class MultiTrainer:
    def __init__(self, models):
        self.models = models
        self.optimizers = {name: torch.optim.Adam(m.parameters()) for name, m in models.items()}
        self.scaler = GradScaler()

    def backward(self, losses):
        self.scaler.scale(sum(losses.values())).backward()

    def step(self):
        for name, optimizer in self.optimizers.items():
            self.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(self.models[name].parameters(), 1.0)
        for optimizer in self.optimizers.values():
            self.scaler.step(optimizer)
        self.scaler.update()
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)

    def fit(self, loader):
        for batch in loader:
            with autocast():
                losses = self.forward(batch)
            self.backward(losses)
            self.step()
