import math
from copy import deepcopy

import numpy as np
import torch
from torch.cuda import amp


def train(hyp, opt, device):
    cuda = device.type != "cpu"
    accumulate = max(round(64 / opt.batch_size), 1)
    optimizer = smart_optimizer(model, opt.optimizer, hyp["lr0"], hyp["momentum"])
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lf)
    ema = ModelEMA(model)
    last_opt_step = -1
    nb = len(train_loader)
    scaler = torch.cuda.amp.GradScaler(enabled=cuda)
    if opt.resume:
        scaler.load_state_dict(ckpt["scaler"])
    for epoch in range(opt.epochs):
        optimizer.zero_grad()
        for i, (imgs, targets, paths, _) in enumerate(train_loader):
            ni = i + nb * epoch
            imgs = imgs.to(device, non_blocking=True).float() / 255
            if ni <= 1000:
                accumulate = max(1, np.interp(ni, [0, 1000], [1, 64 / opt.batch_size]).round())
            with amp.autocast(enabled=cuda):
                pred = model(imgs)
                loss, loss_items = compute_loss(pred, targets.to(device))
                if opt.quad:
                    loss *= 4.0
            scaler.scale(loss).backward()
            if ni - last_opt_step >= accumulate:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if ema:
                    ema.update(model)
                last_opt_step = ni
        scheduler.step()
        ckpt = {
            "epoch": epoch,
            "model": deepcopy(model).half(),
            "ema": deepcopy(ema.ema).half(),
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
        }
        torch.save(ckpt, "last.pt")
