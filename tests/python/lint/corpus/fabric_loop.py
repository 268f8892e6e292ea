from lightning.fabric import Fabric
import torch

fabric = Fabric(accelerator="cuda", devices=2, precision="16-mixed")
fabric.launch()
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
for i, batch in enumerate(loader):
    accumulating = i % 4 != 0
    with fabric.no_backward_sync(model, enabled=accumulating):
        loss = model(batch)
        fabric.backward(loss)
    if not accumulating:
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
