import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def worker(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = DDP(torch.nn.Linear(10, 10).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler("cuda")
    loss_fn = torch.nn.MSELoss()
    for _ in range(100):
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.float16):
            outputs = model(torch.randn(20, 10, device=rank))
            loss = loss_fn(outputs, torch.randn(20, 10, device=rank))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    if rank == 0:
        torch.save(model.state_dict(), "toy.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
