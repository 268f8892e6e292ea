import torch
import torch.nn.functional as F

def inner(params, x, y, net, lr=0.01):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.mse_loss(torch.func.functional_call(net, params, x), y)
    grads = torch.autograd.grad(loss.float(), params.values(), create_graph=True)
    return {k: p - lr * g for (k, p), g in zip(params.items(), grads)}

def outer(net, meta_opt, scaler, tasks):
    meta_opt.zero_grad()
    total = 0.0
    for xs, ys, xq, yq in tasks:
        fast = inner(dict(net.named_parameters()), xs, ys, net)
        with torch.autocast("cuda", dtype=torch.float16):
            q = F.mse_loss(torch.func.functional_call(net, fast, xq), yq)
        scaler.scale(q / len(tasks)).backward()
        total += q.item()
    scaler.step(meta_opt)
    scaler.update()
    return total
