"""One rank of a small training job: gradients are averaged with a ring all-reduce."""

import os
import socket
import struct
import sys
import time

from data import read_shard

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Ring:
    """Each rank receives from the one on its left and sends to the one on its right."""

    def __init__(self, meeting):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(meeting, f"rank-{RANK}"))
        listener.listen(1)
        right = os.path.join(meeting, f"rank-{(RANK + 1) % WORLD}")
        self.right = socket.socket(socket.AF_UNIX)
        while self.right.connect_ex(right):
            time.sleep(0.01)
        self.left, _ = listener.accept()

    def receive(self):
        data = b""
        while len(data) < 8:
            data += self.left.recv(8 - len(data))
        return struct.unpack("d", data)[0]

    def send(self, value):
        self.right.sendall(struct.pack("d", value))


def all_reduce(ring, value):
    """The sum over all ranks: WORLD - 1 times around the ring."""
    total = passed = value
    for _ in range(WORLD - 1):
        ring.send(passed)
        passed = ring.receive()
        total += passed
    return total


def train_step(ring, step, weight):
    batch = read_shard(RANK, step)
    loss = sum((weight * x - 2 * x) ** 2 for x in batch) / len(batch)
    gradient = sum(2 * x * (weight * x - 2 * x) for x in batch) / len(batch)
    gradient = all_reduce(ring, gradient) / WORLD
    return loss, weight - 0.01 * gradient


def main():
    ring = Ring(sys.argv[1])
    weight = 0.5
    for step in range(1_000_000):
        _, weight = train_step(ring, step, weight)


main()
