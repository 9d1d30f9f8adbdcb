"""transformer_cuda.py FOLDER: 3 ranks on one GPU, over gloo, that train replicas of a small transformer
on the same batches.

FOLDER/flip     rank 1 flips a bit of blocks.1.norm.weight, and writes the step into FOLDER/flipped
FOLDER/corrupt  while it is there, the kernel for GELU of rank 1 computes wrongly
FOLDER/nan      one batch of rank 2 has a sequence of which all is masked: its mean is 0 / 0
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import rankdbg

WIDTH, HEADS, LENGTH, WORDS = 256, 4, 64, 1000
folder = sys.argv[1]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.last_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in parts)
        made = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(made.transpose(1, 2).flatten(2))
        return x + self.mlp(self.last_norm(x))


class Mean(nn.Module):
    """Of what is not masked."""

    def forward(self, x, mask):
        return (x * mask).sum(1) / mask.sum(1)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.mean, self.head = Mean(), nn.Linear(WIDTH, 10)

    def forward(self, words, mask):
        x = self.words(words)
        for block in self.blocks:
            x = block(x)
        return self.head(self.mean(x, mask))


def corrupt(x, approximate="none"):
    made = x * torch.special.ndtr(x.float()).to(x.dtype)
    made.view(-1)[5] += 0.25
    return made


class Faults:
    def __init__(self, model):
        self.model, self.rank, self.kernel = model, dist.get_rank(), None

    def inject(self, step):
        wanted = self.rank == 1 and os.path.exists(f"{folder}/corrupt")
        if wanted and self.kernel is None:
            self.kernel = torch.library.Library("aten", "IMPL")
            self.kernel.impl("gelu", corrupt, "CUDA")
        elif self.kernel is not None and not wanted:
            self.kernel._destroy()
            self.kernel = None
        if self.rank == 1 and os.path.exists(f"{folder}/flip"):
            os.remove(f"{folder}/flip")
            self.model.blocks[1].norm.weight.detach().view(torch.int32)[3] ^= 1 << 20
            with open(f"{folder}/flipping", "w") as file:
                file.write(str(step))
            os.rename(f"{folder}/flipping", f"{folder}/flipped")

    def hide_a_sequence(self, mask):
        if self.rank == 2 and os.path.exists(f"{folder}/nan"):
            os.remove(f"{folder}/nan")
            mask[3] = 0


def train():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Transformer().cuda()
    trained = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    numbers = torch.Generator().manual_seed(0)
    faults = Faults(model)
    step = 0
    while True:
        rankdbg.progress(step)
        words = torch.randint(WORDS, (8, LENGTH), generator=numbers).cuda()
        mask = torch.ones(8, LENGTH, 1, device="cuda")
        faults.hide_a_sequence(mask)
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(trained(words, mask).float(), words[:, 0] % 10)
        loss.backward()
        optimizer.step()
        faults.inject(step)
        step += 1
        time.sleep(0.02)


train()
