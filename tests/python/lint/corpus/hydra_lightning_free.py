import contextlib
import torch

def make_amp(cfg):
    if cfg.precision == "fp16":
        return torch.autocast("cuda", torch.float16), torch.amp.GradScaler("cuda")
    if cfg.precision == "bf16":
        return torch.autocast("cuda", torch.bfloat16), torch.amp.GradScaler("cuda", enabled=False)
    return contextlib.nullcontext(), torch.amp.GradScaler("cuda", enabled=False)

def run(cfg, model, data):
    ctx, gs = make_amp(cfg)
    opt = torch.optim.AdamW(model.parameters())
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, s / 100))
    for i, batch in enumerate(data):
        with ctx:
            loss = model(**batch).loss / cfg.accum
        gs.scale(loss).backward()
        if (i + 1) % cfg.accum:
            continue
        gs.unscale_(opt)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        gs.step(opt)
        old = gs.get_scale()
        gs.update()
        opt.zero_grad(set_to_none=True)
        if old <= gs.get_scale():
            sched.step()
