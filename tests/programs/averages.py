"""python averages.py KIND FOLDER: ranks send numbers to rank 0, which receives them in order and sends
back their mean. After some steps rank 2 does KIND instead; no function is called like a collective.
Each rank prints a line at its last step. With the KINDs that begin with `idle`, nothing has failed:
rank 0 has no work for the others."""

import multiprocessing
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
LAST = 5


def reader_is_stopped():
    """What it prints goes to a process that does not read."""
    reader = subprocess.Popen(["sleep", "3600"], stdin=subprocess.PIPE)
    while True:
        os.write(reader.stdin.fileno(), b"loss 1.0\n" * 100)


def child_waits_for_it():
    """The child's output fills the pipe that only this rank could read."""
    child = subprocess.Popen([sys.executable, "-c", "print('x' * 1000000)"], stdout=subprocess.PIPE)
    child.wait()


def polls():
    """For a file that is never written."""
    while not (FOLDER / "tokenizer.done").exists():
        time.sleep(0.5)


def lock_of_a_dead_process():
    lock = multiprocessing.get_context("fork").Lock()
    child = os.fork()
    if not child:
        lock.acquire()
        os._exit(9)
    os.waitpid(child, 0)
    with lock:
        pass


def between_two_pauses():
    """It writes shards, slowly."""
    for number in range(100_000):
        time.sleep(0.5)
        (FOLDER / f"shard-{number % 10}").write_text("x")


def listen():
    server = socket.create_server(("127.0.0.1", 0))
    new = FOLDER / f"new-{RANK}"
    new.write_text(str(server.getsockname()[1]))
    new.rename(FOLDER / f"port-{RANK}")
    return server


def connect(rank):
    port = FOLDER / f"port-{rank}"
    while not port.exists():
        time.sleep(0.01)
    return socket.create_connection(("127.0.0.1", int(port.read_text())))


def average():
    """Rank 0 reads from one rank after another."""
    if RANK:
        with connect(0) as up:
            up.sendall(bytes([RANK]))
            for step in range(100_000):
                if step == LAST:
                    print("ready", flush=True)
                    if RANK == 2:
                        globals()[KIND]()
                up.sendall(struct.pack("d", step))
                up.recv(8)
    with listen() as server:
        accepted = [server.accept()[0] for _ in range(WORLD - 1)]
        peers = {peer.recv(1)[0]: peer for peer in accepted}
        for step in range(100_000):
            if step == LAST:
                print("ready", flush=True)
            total = sum(struct.unpack("d", peers[rank].recv(8))[0] for rank in sorted(peers))
            for peer in peers.values():
                peer.sendall(struct.pack("d", total / WORLD))


def idle_workers():
    """They have said that they are ready, and rank 0 looks for a job now and then."""
    if RANK:
        with connect(0) as up:
            up.sendall(b"ready")
            print("ready", flush=True)
            up.recv(100)
    with listen() as server:
        peers = [server.accept()[0] for _ in range(WORLD - 1)]
        print("ready", flush=True)
        while peers and not (FOLDER / "job").exists():
            time.sleep(0.5)


def idle_stages():
    """Each waits for what comes from the one before it; the first for a broker."""
    server = listen()
    if RANK:
        up = connect(RANK - 1)
    else:
        broker = socket.create_server(("127.0.0.1", 0))
        up = socket.create_connection(broker.getsockname())
        accepted = broker.accept()
    if RANK < WORLD - 1:
        down = server.accept()
    print("ready", flush=True)
    up.recv(100)


(globals()[KIND] if KIND.startswith("idle") else average)()
