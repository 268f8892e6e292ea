import torch
from torch.nn.utils import clip_grad_norm_


def run_epoch(model, loader, criterion, optimizer, device, scaler=None, max_norm=None):
    model.train()
    total = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad(set_to_none=True)
        if scaler is not None:
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            if max_norm:
                scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss = criterion(model(x), y)
            loss.backward()
            if max_norm:
                clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.cuda.amp.GradScaler() if device.type == "cuda" else None
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    for epoch in range(10):
        train_loss = run_epoch(model, train_loader, torch.nn.CrossEntropyLoss(), optimizer, device, scaler, 1.0)
        scheduler.step(train_loss)
        state = {"model": model.state_dict(), "optim": optimizer.state_dict()}
        if scaler is not None:
            state["scaler"] = scaler.state_dict()
        torch.save(state, "last.pt")
