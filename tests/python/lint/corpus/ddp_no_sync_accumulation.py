import contextlib

import torch
from torch.cuda.amp import GradScaler, autocast

scaler = GradScaler()
accum = 8
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer.zero_grad()
for step, (x, y) in enumerate(loader):
    sync = (step + 1) % accum == 0 or step + 1 == len(loader)
    context = contextlib.nullcontext() if sync else model.no_sync()
    with context:
        with autocast():
            loss = criterion(model(x), y) / accum
        scaler.scale(loss).backward()
    if sync:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
