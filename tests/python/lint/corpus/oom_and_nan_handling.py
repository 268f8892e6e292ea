import torch
from torch.cuda.amp import GradScaler, autocast

scaler = GradScaler()
skipped = 0
for i, batch in enumerate(loader):
    try:
        optimizer.zero_grad()
        with autocast():
            loss = model(batch)
        if not torch.isfinite(loss):
            skipped += 1
            if skipped > 10:
                raise RuntimeError("diverged")
            continue
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
    except torch.cuda.OutOfMemoryError:
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        continue
    except KeyboardInterrupt:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "int.pt")
        raise
    finally:
        progress.update(1)
