import copy
import torch
from torch.optim.swa_utils import AveragedModel, SWALR, update_bn

def fit(model, loader, epochs, start):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    swa = AveragedModel(model)
    anneal = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    swa_lr = SWALR(optimizer, swa_lr=0.05)
    amp = torch.cuda.amp.GradScaler()
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.cuda.amp.autocast():
                out = model(x)
                loss = torch.nn.functional.cross_entropy(out, y, label_smoothing=0.1)
            amp.scale(loss).backward()
            amp.step(optimizer)
            amp.update()
        if epoch > start:
            swa.update_parameters(model)
            swa_lr.step()
        else:
            anneal.step()
    update_bn(loader, swa)
