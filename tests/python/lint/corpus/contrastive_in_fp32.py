import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast


class NTXent(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b):
        z = F.normalize(torch.cat([a, b]).float(), dim=1)
        sim = z @ z.t() / self.temperature
        sim = sim - sim.max(dim=1, keepdim=True).values.detach()
        mask = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
        e = torch.exp(sim) * mask
        return -(sim.diagonal(len(a)) - torch.log(e.sum(1)[: len(a)])).mean()


criterion = NTXent(0.1)
scaler = GradScaler()
for (x1, x2), _ in loader:
    optimizer.zero_grad()
    with autocast():
        h1, h2 = encoder(x1), encoder(x2)
        with autocast(enabled=False):
            loss = criterion(h1.float(), h2.float())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
