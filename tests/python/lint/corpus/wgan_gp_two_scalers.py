import torch
from torch.cuda.amp import GradScaler, autocast


def penalty(critic, real, fake, scaler):
    mix = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    x = (mix * real + (1 - mix) * fake).requires_grad_(True)
    with autocast():
        out = critic(x)
    scaled = torch.autograd.grad(scaler.scale(out.sum()), x, create_graph=True)[0]
    grad = scaled / scaler.get_scale()
    with autocast():
        return ((grad.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


scaler_d, scaler_g = GradScaler(), GradScaler()
for i, real in enumerate(loader):
    with torch.no_grad():
        fake = generator(torch.randn(8, 64).cuda())
    with autocast():
        d_loss = critic(fake).mean() - critic(real).mean()
    d_loss = d_loss + 10 * penalty(critic, real, fake, scaler_d)
    opt_d.zero_grad(set_to_none=True)
    scaler_d.scale(d_loss).backward()
    scaler_d.unscale_(opt_d)
    torch.nn.utils.clip_grad_norm_(critic.parameters(), 10.0)
    scaler_d.step(opt_d)
    scaler_d.update()
    if i % 5 == 0:
        with autocast():
            g_loss = -critic(generator(torch.randn(8, 64).cuda())).mean()
        opt_g.zero_grad(set_to_none=True)
        scaler_g.scale(g_loss).backward()
        scaler_g.step(opt_g)
        scaler_g.update()
