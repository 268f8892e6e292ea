import contextlib

import torch


def step(model, batch, optimizer, scaler, use_amp, clip):
    amp_context = torch.cuda.amp.autocast() if use_amp else contextlib.nullcontext()
    with amp_context:
        loss = model(batch)
    if use_amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    if clip:
        if use_amp:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    if use_amp:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    optimizer.zero_grad()
    return loss.detach()
