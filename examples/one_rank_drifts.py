"""Three DDP ranks; in step 150 one of them changes a weight that it should not.

rankdbg run --job drift -- torchrun --nproc-per-node 3 examples/one_rank_drifts.py &
rankdbg diverge --job drift --every 10
rankdbg diverge --job drift
rankdbg diverge --job drift --first
"""

import time

import torch
import torch.distributed as dist
from torch.nn import LayerNorm, Linear, Sequential
from torch.nn.parallel import DistributedDataParallel

import rankdbg

dist.init_process_group("gloo")
torch.manual_seed(0)
model = Sequential(Linear(256, 256), LayerNorm(256), Linear(256, 16))
trained = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if dist.get_rank() == 0:
    print("next: rankdbg diverge", flush=True)
step = 0
while True:
    rankdbg.progress(step)
    optimizer.zero_grad()
    trained(torch.randn(32, 256)).square().mean().backward()
    optimizer.step()
    if step == 150 and dist.get_rank() == 1:
        with torch.no_grad():
            model[1].weight[7] *= 1.01
    step += 1
    time.sleep(0.03)
