import torch
from torch.cuda.amp import GradScaler, autocast
from torch.nn import functional as F


def train_and_evaluate(rank, epoch, hps, nets, optims, schedulers, scaler, loaders):
    net_g, net_d = nets
    optim_g, optim_d = optims
    for batch_idx, (x, spec, y) in enumerate(loaders[0]):
        with autocast(enabled=hps.train.fp16_run):
            y_hat, kl = net_g(x, spec)
            y_d_r, y_d_g = net_d(y, y_hat.detach())
            with autocast(enabled=False):
                loss_disc = discriminator_loss(y_d_r, y_d_g)
        optim_d.zero_grad()
        scaler.scale(loss_disc).backward()
        scaler.unscale_(optim_d)
        grad_norm_d = clip_grad_value(net_d.parameters(), None)
        scaler.step(optim_d)
        with autocast(enabled=hps.train.fp16_run):
            y_d_r, y_d_g = net_d(y, y_hat)
            with autocast(enabled=False):
                loss_gen = generator_loss(y_d_g) + F.l1_loss(y, y_hat) * 45 + kl
        optim_g.zero_grad()
        scaler.scale(loss_gen).backward()
        scaler.unscale_(optim_g)
        grad_norm_g = clip_grad_value(net_g.parameters(), None)
        scaler.step(optim_g)
        scaler.update()


def run(rank, hps):
    scaler = GradScaler(enabled=hps.train.fp16_run)
    for epoch in range(1, hps.train.epochs + 1):
        train_and_evaluate(rank, epoch, hps, [net_g, net_d], [optim_g, optim_d], [s_g, s_d], scaler, [loader, None])
        s_g.step()
        s_d.step()
