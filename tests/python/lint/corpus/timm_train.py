from contextlib import suppress
from functools import partial

import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import CheckpointSaver, NativeScaler, dispatch_clip_grad


def main(args, model, device):
    amp_autocast, loss_scaler = suppress, None
    if args.amp:
        amp_autocast = partial(torch.autocast, device_type=device.type, dtype=torch.float16)
        loss_scaler = NativeScaler()
    optimizer = create_optimizer_v2(model, opt=args.opt)
    lr_scheduler, num_epochs = create_scheduler_v2(optimizer)
    saver = CheckpointSaver(model=model, optimizer=optimizer, args=args, amp_scaler=loss_scaler)
    for epoch in range(num_epochs):
        train_one_epoch(epoch, model, loader, optimizer, loss_fn, args, lr_scheduler, amp_autocast, loss_scaler)
        lr_scheduler.step(epoch + 1)
        saver.save_checkpoint(epoch)


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, args, lr_scheduler, amp_autocast, loss_scaler):
    accum_steps = args.grad_accum_steps
    update_idx = 0
    for batch_idx, (input, target) in enumerate(loader):
        need_update = (batch_idx + 1) % accum_steps == 0

        def _forward():
            with amp_autocast():
                return loss_fn(model(input), target) / accum_steps

        def _backward(loss):
            if loss_scaler is not None:
                loss_scaler(loss, optimizer, clip_grad=args.clip_grad, parameters=model.parameters(), need_update=need_update)
            else:
                loss.backward()
                if need_update:
                    if args.clip_grad is not None:
                        dispatch_clip_grad(model.parameters(), value=args.clip_grad)
                    optimizer.step()

        if need_update and model.no_sync:
            _backward(_forward())
        else:
            with model.no_sync():
                _backward(_forward())
        if not need_update:
            continue
        update_idx += 1
        optimizer.zero_grad()
        lr_scheduler.step_update(num_updates=update_idx)
