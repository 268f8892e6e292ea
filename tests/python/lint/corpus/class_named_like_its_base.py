"""A class that takes the name of the imported one it extends, and two that name each other."""
import torch
from torch.amp import GradScaler, autocast
from torch.utils.data import Dataset


class Dataset(Dataset):
    def __init__(self, rows):
        self.rows = self.prepare(rows)

    def prepare(self, rows):
        self.scaler = self.make_scaler(rows)
        return rows


class Trainer(Base):  # noqa: F821
    def __init__(self, model):
        self.model, self.scaler = model, GradScaler("cuda")
        self.optimizer = torch.optim.Adam(model.parameters())

    def train_step(self, x):
        with autocast("cuda"):
            loss = self.model(x)
        self.scaler.scale(loss).backward()
        self.finish_step(self.scaler)


class Base(Trainer):
    def finish_step(self, scaler):
        scaler.step(self.optimizer)
        scaler.update()
