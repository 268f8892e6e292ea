import torch

def warm(model, data, opt, gs):
    for x, y in data:
        with torch.autocast("cuda", dtype=torch.float16):
            l = (model(x) - y).square().mean()
        opt.zero_grad()
        gs.scale(l).backward()
        gs.step(opt)
        gs.update()

def polish(model, x, y):
    lb = torch.optim.LBFGS(model.parameters(), max_iter=20)
    def closure():
        lb.zero_grad()
        l = (model(x) - y).square().mean()
        l.backward()
        return l
    lb.step(closure)

model = torch.nn.Linear(3, 1).cuda()
warm(model, [], torch.optim.Adam(model.parameters()), torch.amp.GradScaler("cuda"))
polish(model, torch.zeros(3, 3).cuda(), torch.zeros(3, 1).cuda())
