import functools

import torch

scaler = torch.GradScaler("cuda")


def make_step(model, optimizer, loss_fn):
    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()
    return step


train_step = torch.compile(make_step(model, optimizer, torch.nn.functional.mse_loss))
for x, y in loader:
    train_step(x, y)
