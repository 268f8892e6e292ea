from contextlib import nullcontext

import torch
from torch import autocast
from torch.cuda.amp import GradScaler


class Trainer:
    def __init__(self, device):
        self.device = device
        self.grad_scaler = GradScaler() if self.device.type == "cuda" else None

    def train_step(self, batch):
        data, target = batch["data"].to(self.device), batch["target"].to(self.device)
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.device.type, enabled=True) if self.device.type == "cuda" else nullcontext():
            output = self.network(data)
            l = self.loss(output, target)
        if self.grad_scaler is not None:
            self.grad_scaler.scale(l).backward()
            self.grad_scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), 12)
            self.grad_scaler.step(self.optimizer)
            self.grad_scaler.update()
        else:
            l.backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), 12)
            self.optimizer.step()
        return {"loss": l.detach().cpu().numpy()}

    def save_checkpoint(self, filename):
        torch.save({
            "network_weights": self.network.state_dict(),
            "optimizer_state": self.optimizer.state_dict(),
            "grad_scaler_state": self.grad_scaler.state_dict() if self.grad_scaler is not None else None,
        }, filename)
