import os, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    net = DDP(torch.nn.Linear(8, 8).to(rank), device_ids=[rank])
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True)
    lr = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-4, total_steps=1000)
    amp = torch.amp.GradScaler("cuda")
    for it in range(1000):
        t = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.randn(4, 8, device=rank)).float().pow(2).mean()
        amp.scale(loss).backward()
        amp.step(optimizer)
        was = amp.get_scale()
        amp.update()
        if not amp.get_scale() < was:
            lr.step()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            print(it, loss.item(), time.perf_counter() - t)
            torch.save({"net": net.module.state_dict(), "opt": optimizer.state_dict(), "lr": lr.state_dict(), "amp": amp.state_dict()}, "last.pt")

if __name__ == "__main__":
    main()
