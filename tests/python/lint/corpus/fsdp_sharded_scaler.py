import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


def train(args, model, rank, loader, optimizer, scaler, epoch):
    model.train()
    total = torch.zeros(2).to(rank)
    for batch in loader:
        optimizer.zero_grad()
        loss = model(input_ids=batch["source_ids"].to(rank), labels=batch["target_ids"].to(rank))["loss"]
        if scaler:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            model.clip_grad_norm_(args.max_norm)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        total[0] += loss.item()
        total[1] += len(batch)
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    return total[0] / total[1]


def fsdp_main(args, rank):
    policy = MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.float16, buffer_dtype=torch.float16)
    model = FSDP(build_model(), mixed_precision=policy, device_id=torch.cuda.current_device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.85)
    scaler = ShardedGradScaler() if args.fp16 else None
    for epoch in range(1, args.epochs + 1):
        train(args, model, rank, loader, optimizer, scaler, epoch)
        scheduler.step()
