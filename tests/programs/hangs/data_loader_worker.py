"""A worker of rank 2's DataLoader is stopped, as by a job that was suspended and resumed in part."""

import os
import signal

import training
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if training.RANK == 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        return index


training.begin()
for batch in DataLoader(Samples(), num_workers=1):
    training.step()
