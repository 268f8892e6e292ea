import torch

def backward_tasks(losses, shared, gs, opt):
    """gradients of each task by hand, projected, then stepped through the scaler"""
    flat = []
    for loss in losses:
        opt.zero_grad()
        gs.scale(loss).backward(retain_graph=True)
        flat.append(torch.cat([p.grad.flatten() for p in shared]))
    g = torch.stack(flat).sum(0)
    offset = 0
    for p in shared:
        p.grad = g[offset:offset + p.numel()].view_as(p).clone()
        offset += p.numel()
    gs.step(opt)
    gs.update()
