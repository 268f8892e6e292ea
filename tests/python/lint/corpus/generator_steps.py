import torch

def steps(model, batches, optimizer, scaler):
    for batch in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        yield loss.item()

if __name__ == "__main__":
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    for value in steps(model, [], optimizer, torch.amp.GradScaler("cuda")):
        print(value)
