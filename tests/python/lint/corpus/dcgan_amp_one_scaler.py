import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast

criterion = nn.BCEWithLogitsLoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4)
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4)
scaler = GradScaler()
for epoch in range(25):
    for real, _ in dataloader:
        optimizerD.zero_grad()
        with autocast():
            fake = netG(torch.randn(real.size(0), 100, 1, 1, device="cuda"))
            out_real, out_fake = netD(real.cuda()), netD(fake.detach())
            errD = criterion(out_real, torch.ones_like(out_real)) + criterion(out_fake, torch.zeros_like(out_fake))
        scaler.scale(errD).backward()
        scaler.step(optimizerD)
        optimizerG.zero_grad()
        with autocast():
            out = netD(fake)
            errG = criterion(out, torch.ones_like(out))
        scaler.scale(errG).backward()
        scaler.step(optimizerG)
        scaler.update()
