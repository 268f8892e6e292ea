import torch
from torch.cuda.amp import GradScaler, autocast


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with autocast():
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def export(model, path):
    model.half()
    torch.jit.script(model).save(path)


train(net, loader)
export(net, "net.pt")
