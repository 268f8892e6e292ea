import argparse
import shutil

import torch
import torch.nn as nn
import torchvision.models as models

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=90)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--resume", default="")


def main():
    args = parser.parse_args()
    model = nn.parallel.DistributedDataParallel(models.resnet50().cuda())
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
    if args.resume:
        checkpoint = torch.load(args.resume)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scaler.load_state_dict(checkpoint["scaler"])
    for epoch in range(args.epochs):
        train(train_loader, model, criterion, optimizer, scaler, args)
        acc1 = validate(val_loader, model, criterion)
        scheduler.step()
        save_checkpoint({
            "epoch": epoch + 1,
            "state_dict": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
        }, acc1 > best)


def train(loader, model, criterion, optimizer, scaler, args):
    model.train()
    for i, (images, target) in enumerate(loader):
        images, target = images.cuda(non_blocking=True), target.cuda(non_blocking=True)
        with torch.cuda.amp.autocast(enabled=args.amp):
            output = model(images)
            loss = criterion(output, target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if i % 10 == 0:
            print(loss.item())


def validate(loader, model, criterion):
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            criterion(model(images.cuda()), target.cuda())
    return 0.0


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


if __name__ == "__main__":
    main()
