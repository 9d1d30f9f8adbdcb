"""A rank that writes its steps, and fails in the way that it is told.

    crashing_rank.py FAULT RANK [gloo]

FAULT is of one rank only; the others train on, or wait for it in a collective."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

STEPS = int(os.environ.get("STEPS", "12"))
BAD_STEP = 6


def say(text: str) -> None:
    now = time.time()
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    print(f"{clock},{int(now * 1000) % 1000:03d} INFO [rank{RANK}] {text}", flush=True)


def raise_error() -> None:
    {"images": 1}["image_sizes"]


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash_in_c() -> None:
    faulthandler.enable()
    ctypes.string_at(8)


def abort() -> None:
    faulthandler.enable()
    os.abort()


def touch_a_cut_file() -> None:
    faulthandler.enable()
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 16)
        memory = mmap.mmap(file.fileno(), 1 << 16)
        file.truncate(0)
        memory[1 << 14]


def use_all_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    import array

    array.array("d", bytes(8)) * (1 << 29)


def eat_memory() -> None:
    """Until a limit of somebody else's ends it; not all of the machine's, if there is none."""
    kept = [bytearray(b"x" * (8 << 20)) for _ in range(150)]
    say(f"holds {len(kept)} blocks")


def fill_the_cache() -> None:
    """More than a limit of its group: the kernel takes it back."""
    with tempfile.TemporaryFile(dir=".") as file:
        for _ in range(200):
            file.write(bytes(1 << 20))


def open_all_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    kept = [open("/dev/null") for _ in range(100)]
    say(str(len(kept)))


def fill_the_disk() -> None:
    with open("/dev/full", "w") as file:
        file.write("checkpoint" * 10_000)


def read_a_missing_file() -> None:
    open("/data/shards/00412.tar")


def read_a_cut_checkpoint() -> None:
    import pickle

    whole = pickle.dumps(list(range(100_000)))
    pickle.loads(whole[: len(whole) // 2])


def import_what_is_missing() -> None:
    import flash_attn_of_another_version  # type: ignore[import-not-found]  # noqa: F401


def take_a_port_that_is_taken() -> None:
    first = socket.create_server(("127.0.0.1", 0))
    socket.create_server(first.getsockname())


def resolve_an_unknown_name() -> None:
    socket.create_connection(("master-0.invalid", 29500))


def run_out_of_gpu_memory() -> None:
    # The text of torch itself; there is no GPU here.
    class OutOfMemoryError(RuntimeError):
        pass

    OutOfMemoryError.__module__ = "torch"
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB")  # fmt: skip


def chain_errors() -> None:
    try:
        fill_the_disk()
    except OSError as error:
        raise RuntimeError("unexpected pos 64 vs 0") from error


def catch_an_error() -> None:
    import traceback

    try:
        raise_error()
    except KeyError:
        traceback.print_exc()
        say("skipping broken sample")


def exit_with_an_error() -> None:
    sys.exit(3)


def be_interrupted() -> None:
    # A shell lets what it starts in the background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def leave_early() -> None:
    say("no more data")
    os._exit(0)


def hang() -> None:
    time.sleep(3600)


def fail_once() -> None:
    if os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
        raise_error()


def fail_once_in_a_pod() -> None:
    """A file that outlives the container tells the second from the first."""
    mark = os.path.join(os.environ["SCRATCH"], "failed")
    if not os.path.exists(mark):
        open(mark, "w").close()
        raise_error()


def fill_the_scratch() -> None:
    """More than the volume may have; who looks after it notices later."""
    with open(os.path.join(os.environ["SCRATCH"], "spilled.bin"), "wb") as file:
        file.write(bytes(8 << 20))
    hang()


def reduce_another_shape() -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(100_000))


def fill_a_small_disk() -> None:
    import torch

    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder])
        if mounted.returncode:
            return fill_the_disk()
        try:
            torch.save(torch.ones(1 << 20), f"{folder}/step_6.pt")
        finally:
            subprocess.run(["umount", folder])


def nothing() -> None:
    pass


FAULTS = {
    fault.__name__: fault
    for fault in (
        raise_error, kill_itself, crash_in_c, abort, touch_a_cut_file, use_all_memory, eat_memory,
        fill_the_cache, open_all_files,
        fill_the_disk, read_a_missing_file, read_a_cut_checkpoint, import_what_is_missing,
        take_a_port_that_is_taken, resolve_an_unknown_name, run_out_of_gpu_memory, chain_errors,
        catch_an_error, exit_with_an_error, be_interrupted, leave_early, hang, fail_once,
        fail_once_in_a_pod, fill_the_scratch,
        reduce_another_shape, fill_a_small_disk, nothing,
    )
}  # fmt: skip


def train(fault: str, bad: int, gloo: bool) -> None:
    if gloo:
        from datetime import timedelta

        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    for step in range(1, STEPS + 1):
        if step == BAD_STEP and bad == RANK and fault != "become_nan":
            FAULTS[fault]()
        if gloo:
            dist.all_reduce(torch.ones(4))
        time.sleep(0.1)
        poisoned = fault == "become_nan" and step >= BAD_STEP + (bad != RANK)
        say(f"step {step} loss {'nan' if poisoned else f'{3 - step * 0.01:.4f}'} lr 1e-4")
        if step % 3 == 0:
            say(f"saved checkpoint step_{step}.pt")
    say("Training completed" if fault != "become_nan" else "going to sleep")


if __name__ == "__main__":
    RANK = int(os.environ.get("RANK", sys.argv[2] if len(sys.argv) > 2 else "0"))
    if "zone" in sys.argv and RANK == 2:
        os.environ["TZ"] = "Asia/Tokyo"
        time.tzset()
    train(sys.argv[1], int(os.environ.get("BAD", "1")), "gloo" in sys.argv)
