"""python fork_ranks.py WORLD PROGRAM ARGUMENT...: as launch.py, but torch is loaded once, and its
ranks are forks of that, as torch.multiprocessing makes them. With --serve SOCKET it loads torch
once for many jobs, whose words come from the clients of torch_server.py.

Only for jobs with an agent: from outside, the variables of a fork are those of its parent.
"""

import atexit
import gc
import os
import runpy
import sys
import threading

import torch.distributed  # noqa: F401
import torch_server


def end() -> None:
    """As Python ends, but for freeing all that torch consists of, a thing at a time."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


# Half a million objects, which no rank frees: the collections of each would write to all pages.
gc.collect()
gc.freeze()
client = torch_server.serve(sys.argv[2]) if sys.argv[1] == "--serve" else None
size, *sys.argv = client.words if client else sys.argv[1:]
started, _, world = size.rpartition("/")
for rank in range(int(started or world)):
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "GROUP_RANK": 0}
    names["LOCAL_WORLD_SIZE"] = world
    os.environ.update({name: str(value) for name, value in names.items()})
    if not os.fork():
        if client:
            client.leave()
        sys.path[0] = os.path.dirname(sys.argv[0])
        runpy.run_path(sys.argv[0], run_name="__main__")
        end()
for name in names:
    del os.environ[name]  # this process is no rank
if client:
    client.end_together()
statuses = [os.wait()[1] for _ in range(int(started or world))]
if client:
    client.answer(int(any(statuses)))
sys.exit(any(statuses))
