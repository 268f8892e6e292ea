import math
import time

import torch
import torch.nn as nn

scaler = torch.cuda.amp.GradScaler()


def repackage(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage(v) for v in h)


def train(epoch):
    model.train()
    total_loss, start = 0.0, time.time()
    hidden = model.init_hidden(20)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, 35)):
        data, targets = get_batch(train_data, i)
        optimizer.zero_grad()
        hidden = repackage(hidden)
        with torch.cuda.amp.autocast():
            output, hidden = model(data, hidden)
            loss = criterion(output, targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        scaler.step(optimizer)
        scaler.update()
        total_loss += loss.item()
        if batch % 200 == 0 and batch > 0:
            cur_loss = total_loss / 200
            print(cur_loss, math.exp(cur_loss), time.time() - start)
            total_loss = 0


for epoch in range(1, 41):
    train(epoch)
