import torch as th
from torch import amp as mixed

use_amp = True
net = th.nn.Sequential(*[th.nn.Linear(64, 64) for _ in range(3)]).cuda()
opt = th.optim.SGD(net.parameters(), lr=0.001)
loss_scaler = mixed.GradScaler("cuda", enabled=use_amp)
for epoch in range(3):
    for input, target in zip(data, targets):
        with mixed.autocast(device_type="cuda", dtype=th.float16, enabled=use_amp):
            output = net(input)
            loss = th.nn.functional.mse_loss(output, target)
        loss_scaler.scale(loss).backward()
        loss_scaler.unscale_(opt)
        th.nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.1)
        loss_scaler.step(opt)
        loss_scaler.update()
        opt.zero_grad()
checkpoint = {"model": net.state_dict(), "optimizer": opt.state_dict(), "scaler": loss_scaler.state_dict()}
th.save(checkpoint, "filename")
