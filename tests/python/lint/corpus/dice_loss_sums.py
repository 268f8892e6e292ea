import torch
import torch.nn as nn


class DiceLoss(nn.Module):
    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        inter = (p * target).sum((1, 2, 3))
        total = p.sum((1, 2, 3)) + target.sum((1, 2, 3))
        return 1 - ((2 * inter + 1e-6) / (total + 1e-6)).mean()


dice, bce = DiceLoss(), nn.BCEWithLogitsLoss()
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    with torch.autocast("cuda"):
        out = model(x)
        loss = dice(out, y) + bce(out, y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
