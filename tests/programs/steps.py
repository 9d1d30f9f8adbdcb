"""python steps.py COUNT [ENDING]: tells COUNT steps; in a torchrun job with a barrier in each.

ENDING: `exit 3`, `die` (no clean-up, as killed), `wait` (for ever), `children`; for one that is
told to end: `stuck` (in C), `handles` (it itself), `loop` (asyncio, which is told of other
signals), `fork` (a child is told so before).
"""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import rankdbg


async def wait_in_loop():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)
    print("waits", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    count, ending = int(sys.argv[1]), sys.argv[2:]
    print("reads", sys.stdin.read().strip(), flush=True)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        import torch.distributed

        torch.distributed.init_process_group("gloo")
    for step in range(1, count + 1):
        rankdbg.progress(step)
        if "TORCHELASTIC_RUN_ID" in os.environ:
            torch.distributed.barrier()
    match ending:
        case ["exit", status]:
            sys.exit(int(status))
        case ["die"]:
            os._exit(9)
        case ["wait"]:
            print("waits", flush=True)
            threading.Event().wait()
        case ["stuck"]:
            print("waits", flush=True)
            library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
            library.pthread_mutex_lock(mutex)
            library.pthread_mutex_lock(mutex)
        case ["handles"]:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(6))
            print("waits", flush=True)
            threading.Event().wait()
        case ["loop"]:
            asyncio.run(wait_in_loop())
        case ["fork"]:
            if (child := os.fork()) == 0:
                threading.Event().wait()
            os.kill(child, signal.SIGTERM)
            print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        case ["children"]:
            subprocess.run([sys.executable, __file__, "9"], stdin=subprocess.DEVNULL, check=True)
            child = multiprocessing.get_context("spawn").Process(target=os.getpid)
            child.start()
            child.join()
