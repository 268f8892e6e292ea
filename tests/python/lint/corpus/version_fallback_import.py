import torch

try:
    from torch.amp import GradScaler, autocast
    NEW_API = True
except ImportError:
    from torch.cuda.amp import GradScaler, autocast
    NEW_API = False


def make_scaler(enabled):
    return GradScaler("cuda", enabled=enabled) if NEW_API else GradScaler(enabled=enabled)


def make_autocast(enabled):
    return autocast("cuda", enabled=enabled) if NEW_API else autocast(enabled=enabled)


scaler = make_scaler(True)
for x in loader:
    optimizer.zero_grad()
    with make_autocast(True):
        loss = model(x)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
