import torch
from torch.cuda.amp import GradScaler, autocast

scaler = GradScaler(init_scale=2.0**14, growth_interval=1000)
for clip in clips:
    hidden = None
    optimizer.zero_grad()
    with autocast():
        loss = 0
        for t in range(clip.shape[1]):
            out, hidden = model(clip[:, t], hidden)
            loss = loss + criterion(out, clip[:, t + 1])
        loss = loss / clip.shape[1]
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
