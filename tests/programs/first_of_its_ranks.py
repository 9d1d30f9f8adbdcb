"""python first_of_its_ranks.py WAY: rank 0 itself, without a number in its environment; it starts ranks 1
and 2, which connect to it over TCP, and waits for data of rank 2. That waits at a pipe without end.

WAY: spawn, children of multiprocessing; code, another command; or launcher: a program that is none of
the ranks, whose rank 0 has ended and whose other ranks wait for each other."""

import multiprocessing
import os
import socket
import subprocess
import sys

COMMAND = "import sys; sys.path.insert(0, sys.argv[1]); import {0}; {0}.work(int(sys.argv[2]))"


def work(port):
    if os.environ["RANK"] == "0":
        return
    if port:
        joined = socket.create_connection(("127.0.0.1", port))
        joined.sendall(os.environ["RANK"].encode())
    reads_nothing()


def reads_nothing():
    ours, other = os.pipe()
    os.read(ours, 1)


def start(way, rank, port):
    environment = {"RANK": str(rank), "WORLD_SIZE": "3"}
    if way == "spawn":
        os.environ.update(environment)
        multiprocessing.get_context("spawn").Process(target=work, args=(port,)).start()
        return
    folder, name = os.path.split(os.path.abspath(__file__))
    words = [COMMAND.format(name.removesuffix(".py")), folder, str(port)]
    subprocess.Popen([sys.executable, "-c", *words], env={**os.environ, **environment})


def waits_for_ranks(server):
    joined = {}
    while len(joined) < 2:
        connection, _ = server.accept()
        joined[connection.recv(1)] = connection
    joined[b"2"].recv(1)


if __name__ == "__main__":
    way = sys.argv[1]
    with socket.create_server(("127.0.0.1", 0)) as server:
        is_launcher = way == "launcher"
        for number in range(0 if is_launcher else 1, 3):
            start(way, number, 0 if is_launcher else server.getsockname()[1])
        if is_launcher:
            reads_nothing()
        waits_for_ranks(server)
