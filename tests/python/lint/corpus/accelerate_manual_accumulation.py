from accelerate import Accelerator
import torch

accelerator = Accelerator(mixed_precision="fp16")
net, opt, data = accelerator.prepare(net, torch.optim.AdamW(net.parameters()), data)
for i, batch in enumerate(data):
    with accelerator.autocast():
        loss = net(batch) / 8
    accelerator.backward(loss)
    if (i + 1) % 8 == 0:
        opt.step()
        opt.zero_grad()
    if accelerator.is_main_process and i % 1000 == 0:
        torch.save({"model": net.state_dict(), "optimizer": opt.state_dict()}, "x.pt")
