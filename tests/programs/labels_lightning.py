"""python labels_lightning.py DIR: Lightning with two ranks on the processor. Lightning itself starts
the second; rank 1 never comes to its first step."""

import sys
import threading

import pytorch_lightning as lightning
import torch
from torch.utils.data import DataLoader


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def training_step(self, batch, index):
        if self.global_rank == 1:
            waits()
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def waits():
    threading.Event().wait()


if __name__ == "__main__":
    torch.set_num_threads(1)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=sys.argv[1],
    )  # fmt: skip
    trainer.fit(Model(), DataLoader(torch.ones(8, 4), batch_size=2))
