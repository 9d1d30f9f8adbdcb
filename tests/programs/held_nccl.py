"""An NCCL collective that lasts longer than its group's timeout, while another thread of the rank
is stopped, or while none is.

held_nccl.py stop|go
"""

import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

LIMIT = timedelta(seconds=5)
CYCLES = 30_000_000_000  # 15 s and more: no GPU of today has 2 GHz


def stop_here():
    breakpoint()


def limit():
    group = dist.distributed_c10d._get_default_group()
    return group._get_backend(torch.device("cuda")).options._timeout


def main():
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, timeout=LIMIT)
    numbers = torch.ones(4, device="cuda")
    dist.all_reduce(numbers)  # connects
    torch.cuda.synchronize()
    if sys.argv[1] == "stop":
        threading.Thread(target=stop_here, daemon=True).start()
        while limit() == LIMIT:
            time.sleep(0.01)
    torch.cuda._sleep(CYCLES)
    dist.all_reduce(numbers)
    torch.cuda.synchronize()
    print("survived", flush=True)


main()
