"""python dask_local.py: a program with two Dask workers of its own."""

import time

from dask.distributed import Client, LocalCluster

if __name__ == "__main__":
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    client = Client(cluster)
    while True:
        time.sleep(1)
