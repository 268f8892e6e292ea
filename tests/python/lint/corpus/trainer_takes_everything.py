import torch
from torch import nn

class Learner:
    def __init__(self, net, opt, gs, ramp):
        self.net, self.opt, self.gs, self.ramp = net, opt, gs, ramp

    def batch(self, xb, yb):
        with torch.cuda.amp.autocast():
            err = nn.functional.mse_loss(self.net(xb), yb)
        self.gs.scale(err).backward()
        self.gs.step(self.opt)
        self.gs.update()
        self.opt.zero_grad()
        return err.detach()

    def epoch(self, dl):
        total = sum(self.batch(x, y) for x, y in dl)
        self.ramp.step()
        return total

def main():
    net = nn.Linear(10, 1).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    learner = Learner(net, opt, torch.cuda.amp.GradScaler(), torch.optim.lr_scheduler.StepLR(opt, 3))
    for _ in range(5):
        learner.epoch([])
