"""Ranks on gloo with Megatron's groups: two for tensors, the rest for data; they wait."""

import threading

import torch.distributed as dist
from megatron.core import parallel_state


def waits():
    threading.Event().wait()


dist.init_process_group("gloo")
parallel_state.initialize_model_parallel(2, create_gloo_process_groups=False)
waits()
