import torch
ctx = torch.autocast(device_type="cuda", dtype=torch.float16)
def optimise(model, loss_fn, xs, optim, lossscale, schedule=None):
    model.train()
    for x, t in xs:
        with ctx:
            y = model(x)
            loss = loss_fn(y.float(), t)
        scaled = lossscale.scale(loss)
        scaled.backward()
        lossscale.unscale_(optim)
        grad_norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        if not torch.isfinite(grad_norm):
            print("overflow, step will be skipped")
        lossscale.step(optim)
        lossscale.update()
        optim.zero_grad(set_to_none=True)
    if schedule:
        schedule.step()
