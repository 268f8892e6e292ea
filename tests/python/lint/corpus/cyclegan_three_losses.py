import itertools

import torch

scaler = torch.amp.GradScaler("cuda")
opt_g = torch.optim.Adam(itertools.chain(a2b.parameters(), b2a.parameters()), lr=2e-4)
opt_da = torch.optim.Adam(disc_a.parameters(), lr=2e-4)
opt_db = torch.optim.Adam(disc_b.parameters(), lr=2e-4)
schedulers = [torch.optim.lr_scheduler.LambdaLR(o, decay) for o in (opt_g, opt_da, opt_db)]
for epoch in range(200):
    for real_a, real_b in loader:
        with torch.amp.autocast("cuda"):
            fake_b, fake_a = a2b(real_a), b2a(real_b)
            loss_g = adversarial(disc_b(fake_b)) + adversarial(disc_a(fake_a)) + 10 * cycle(a2b, b2a, real_a, real_b)
        opt_g.zero_grad()
        scaler.scale(loss_g).backward()
        scaler.step(opt_g)
        for disc, opt, real, fake in ((disc_a, opt_da, real_a, fake_a), (disc_b, opt_db, real_b, fake_b)):
            with torch.amp.autocast("cuda"):
                loss = discriminate(disc(real), disc(fake.detach()))
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
        scaler.update()
    for scheduler in schedulers:
        scheduler.step()
