"""python run_pool.py KIND METHOD: a process with a pool of two workers."""

import concurrent.futures
import multiprocessing
import sys

from run_waiting import waits

if __name__ == "__main__":
    kind, method = sys.argv[1:]
    context = multiprocessing.get_context(method)
    if kind == "pool":
        pool = context.Pool(2)
    else:
        pool = concurrent.futures.ProcessPoolExecutor(2, mp_context=context)
        for _ in range(2):
            pool.submit(waits)  # the second worker is started only while the first is busy
    waits()
