import torch
from torch.amp import GradScaler, autocast

scaler = GradScaler("cuda")
for epoch in range(3):
    for input, target in data:
        optimizer.zero_grad()
        with autocast("cuda"):
            loss = loss_fn(model(input), target)
        scaled_grads = torch.autograd.grad(outputs=scaler.scale(loss), inputs=model.parameters(), create_graph=True)
        inv_scale = 1.0 / scaler.get_scale()
        grads = [g * inv_scale for g in scaled_grads]
        with autocast("cuda"):
            norm = sum(g.pow(2).sum() for g in grads).sqrt()
            loss = loss + norm
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
