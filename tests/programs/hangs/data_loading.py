"""Rank 2's data set waits for a shard that was never uploaded."""

import os
import time

import training
from torch.utils.data import DataLoader, Dataset


class Shards(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        while training.RANK == 2 and not os.path.exists(f"/nonexistent/shard-{index}"):
            time.sleep(0.05)
        return index


training.begin()
for batch in DataLoader(Shards(), batch_size=10):
    training.step()
