"""The files of a small real job that hangs. `rankdbg demo` copies them out and runs them.

launch.py   starts the ranks, as torchrun would
train.py    a rank: a training loop with a ring all-reduce over sockets
data.py     reads the shards; one read never returns
"""
