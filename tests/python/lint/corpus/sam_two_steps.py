import torch

scaler = torch.cuda.amp.GradScaler()
for x, y in loader:
    with torch.cuda.amp.autocast():
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    optimizer.first_step(zero_grad=True)
    with torch.cuda.amp.autocast():
        second = criterion(model(x), y)
    scaler.scale(second).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
