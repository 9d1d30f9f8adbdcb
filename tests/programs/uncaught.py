"""python uncaught.py BEHAVIOUR...: rank i fails in the way that the i-th word says."""

import concurrent.futures
import multiprocessing
import os
import sys
import threading

RANK = int(os.environ.get("RANK", "0"))


def divide(numerator, denominator):
    api_key = "hunter2"
    return numerator / denominator


def fails():
    batch = [1, 2]
    divide(len(batch), 0)


def stops_and_fails():
    breakpoint()
    fails()


def stops_in(method):
    child = multiprocessing.get_context(method).Process(target=stops_and_fails, name="child")
    child.start()
    child.join()
    print("exit status of the child:", child.exitcode, flush=True)


def stops_in_fork():
    stops_in("fork")


def stops_in_spawn():
    stops_in("spawn")


def stops_in_thread():
    thread = threading.Thread(target=stops_and_fails, name="worker")
    thread.start()
    thread.join()


def forks_after_a_stop():
    breakpoint()
    in_child("fork")


def waits():
    threading.Event().wait()


def has_a_hook():
    def hook(kind, error, traceback):
        print("its own hook:", error, file=sys.stderr, flush=True)
        os._exit(7)

    sys.excepthook = hook
    fails()


def in_thread():
    thread = threading.Thread(target=fails, name="worker")
    thread.start()
    thread.join()
    print("the main thread goes on", flush=True)


def in_thread_and_main():
    in_thread()
    raise LookupError("main, too")


def in_child(method):
    child = multiprocessing.get_context(method).Process(target=fails, name="child")
    child.start()
    child.join()
    print("exit status of the child:", child.exitcode, flush=True)


def in_fork():
    in_child("fork")


def in_spawn():
    in_child("spawn")


def in_forkserver():
    in_child("forkserver")


def in_pools():
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        first = pool.apply_async(fails)
        with concurrent.futures.ProcessPoolExecutor(1, context) as executor:
            second = executor.submit(fails)
            print("raised:", second.exception(), flush=True)
        try:
            first.get()
        except ZeroDivisionError as error:
            print("raised:", error, flush=True)


def in_torch_spawn(function=None):
    import torch.multiprocessing

    try:
        torch.multiprocessing.spawn(function or with_index)
    except torch.multiprocessing.ProcessRaisedException as error:
        print("raised:", str(error).strip().splitlines()[-1], flush=True)


def with_index(index):
    fails()


def stops_in_torch_spawn():
    in_torch_spawn(stops_with_index)


def stops_with_index(index):
    stops_and_fails()


def exits():
    raise SystemExit(3)


def is_interrupted():
    raise KeyboardInterrupt


def quits():
    import bdb

    raise bdb.BdbQuit


def has_odd_values():
    class Bad:
        def __repr__(self):
            raise ValueError("no repr")

    bad = Bad()
    huge = list(range(10**6))
    divide(1, 0)


def stops():
    value = 5
    breakpoint()
    print("went on", flush=True)


def steps_into_failure():
    breakpoint()
    divide(1, 0)


def with_torch():
    import torch.distributed
    from torch.distributed.elastic.multiprocessing.errors import record

    torch.distributed.init_process_group("gloo")
    record(reduces)()


def reduces():
    import torch

    tensor = torch.ones(3)
    torch.distributed.all_reduce(tensor)
    if RANK == 1:
        fails()
    torch.distributed.all_reduce(tensor)


if __name__ == "__main__":
    words = sys.argv[1:]
    globals()[words[RANK % len(words)]]()
