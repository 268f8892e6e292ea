import torch
from torch.cuda.amp import GradScaler, autocast

scaler = GradScaler(enabled=cfg.amp)
for update in range(cfg.updates):
    rollout = collect(policy)
    for _ in range(cfg.epochs):
        for batch in minibatches(rollout):
            with autocast(enabled=cfg.amp):
                logp, value, entropy = policy.evaluate(batch.obs, batch.actions)
                ratio = torch.exp(logp - batch.logp)
                clipped = torch.clamp(ratio, 0.8, 1.2)
                loss = -torch.min(ratio * batch.adv, clipped * batch.adv).mean() + 0.5 * (value - batch.ret).pow(2).mean()
                loss = loss - 0.01 * entropy.mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
