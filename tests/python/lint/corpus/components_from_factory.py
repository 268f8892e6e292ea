import torch
from torch.optim.lr_scheduler import CosineAnnealingLR

def build(model, cfg):
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    cosine = CosineAnnealingLR(opt, cfg.steps)
    gs = torch.amp.GradScaler("cuda")
    return opt, cosine, gs

def train(model, loader, cfg):
    opt, cosine, gs = build(model, cfg)
    for epoch in range(cfg.epochs):
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.cross_entropy(model(x), y)
            gs.scale(loss).backward()
            gs.step(opt)
            gs.update()
        cosine.step()
