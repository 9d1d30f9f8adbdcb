"""The training data, in shards. Shard 7 of rank 5 is on a disk that does not respond."""

import os
import sys


def read_shard(rank, step):
    if (rank, step) == (5, 7):
        path = os.path.join(sys.argv[1], "shard-0007")
        os.mkfifo(path)
        with open(path) as shard:  # nothing ever writes to it
            return [float(line) for line in shard]
    return [((rank * 31 + step * 17 + i) % 13) / 13 for i in range(64)]
