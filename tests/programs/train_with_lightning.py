"""python train_with_lightning.py DIR: a process that trains a small model with Lightning's Trainer."""

import sys

import pytorch_lightning as lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        for _ in range(10):  # long enough that samples of a busy machine meet it
            sample = torch.randn(256)
        return sample


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(40)))

    def training_step(self, batch, index):
        if index == 3:
            print("trains", flush=True)
        return (self.layers(batch) - batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


torch.set_num_threads(1)
trainer = lightning.Trainer(
    max_epochs=-1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, default_root_dir=sys.argv[1],
)  # fmt: skip
trainer.fit(Model(), DataLoader(Samples(), batch_size=32))
