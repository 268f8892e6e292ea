import time

import torch
from detectron2.engine import SimpleTrainer


class AMPTrainer(SimpleTrainer):
    def __init__(self, model, data_loader, optimizer, grad_scaler=None, precision=torch.float16):
        super().__init__(model, data_loader, optimizer)
        if grad_scaler is None:
            from torch.cuda.amp import GradScaler
            grad_scaler = GradScaler()
        self.grad_scaler = grad_scaler
        self.precision = precision

    def run_step(self):
        start = time.perf_counter()
        data = next(self._data_loader_iter)
        if self.zero_grad_before_forward:
            self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=self.precision):
            loss_dict = self.model(data)
            if isinstance(loss_dict, torch.Tensor):
                losses = loss_dict
            else:
                losses = sum(loss_dict.values())
        self.grad_scaler.scale(losses).backward()
        self._write_metrics(loss_dict, time.perf_counter() - start)
        self.grad_scaler.step(self.optimizer)
        self.grad_scaler.update()

    def state_dict(self):
        ret = super().state_dict()
        ret["grad_scaler"] = self.grad_scaler.state_dict()
        return ret
