"""Rank 1 waits for a key of the store that no rank sets."""

import torch.distributed as dist
import training

training.begin()
if training.RANK == 1:
    store = dist.distributed_c10d._get_default_store()
    store.get("tokenizer is ready")
training.step()
