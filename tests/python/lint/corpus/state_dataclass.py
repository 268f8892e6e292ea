from dataclasses import dataclass
import torch

@dataclass
class TrainState:
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    amp: torch.amp.GradScaler
    lr_policy: object
    step: int = 0

def one_step(state, batch, criterion):
    inputs, targets = batch
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        loss = criterion(state.model(inputs), targets)
    state.optimizer.zero_grad()
    state.amp.scale(loss).backward()
    state.amp.unscale_(state.optimizer)
    torch.nn.utils.clip_grad_norm_(state.model.parameters(), 1.0)
    before = state.amp.get_scale()
    state.amp.step(state.optimizer)
    state.amp.update()
    if state.amp.get_scale() >= before:
        state.lr_policy.step()
    state.step += 1
    return loss.item()

def save(state, path):
    torch.save({"model": state.model.state_dict(), "optimizer": state.optimizer.state_dict(), "amp": state.amp.state_dict(),
                "lr": state.lr_policy.state_dict()}, path)
