"""What NCCL's RAS thread answers -> communicators."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from rankdbg.node.machine import nccl_ras

# As NCCL 2.29 writes it, and in the text of NCCL 2.26, with a rank that has launched fewer.
JSON = """OK
OK
{
  "nccl_version": "2.29.1",
  "communicators_count": 1,
  "communicators": [
    {
      "hash": "0xae94423cfbb2ef4a",
      "secondary_hash": "0x1:0x2",
      "size": 2,
      "ranks_count": 2,
      "missing_ranks_count": 0,
      "ranks": [
        {"rank": 0, "host": "10.0.0.5", "pid": 71, "cuda_dev": 0, "nvml_dev": 0,
         "status": {"init_state": 0}, "collective_counts": {"Broadcast": 2, "AllReduce": 8}},
        {"rank": 1, "host": "10.0.0.5", "pid": 72, "cuda_dev": 1, "nvml_dev": 1,
         "status": {"init_state": 0}, "collective_counts": {"Broadcast": 2, "AllReduce": 7}}
      ],
      "missing_ranks": []
    }
  ],
  "ras": {"collection_time_sec": 0.001, "timeouts_count": 0}
}
"""
TEXT = """OK
ERROR: Unknown command set format json
NCCL version 2.26.2 compiled with CUDA 12.8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         4         4         4   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 8
  Rank 2 has launched up to operation 7 -- GPU 2 managed by process 73 on node 10.0.0.5

"""
SERVER = """
import socket, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(flush=True)
connection, _ = listening.accept()
said = b""
while b"STATUS\\n" not in said:
    said += connection.recv(100)
connection.sendall(sys.argv[2].encode())
connection.close()
sys.stdin.read()
"""


def test_json() -> None:
    (found,) = nccl_ras._communicators(JSON)
    assert (found["name"], found["size"]) == ("ae94423cfbb2ef4a", 2)
    assert [
        (each["rank"], each["pid"], each["launched"]["AllReduce"]) for each in found["ranks"]
    ] == [
        (0, 71, 8),
        (1, 72, 7),
    ]


def test_text_names_only_the_fewer() -> None:
    (found,) = nccl_ras._communicators(TEXT)
    assert (found["name"], found["size"]) == ("27a079b828ff1a75", 4)
    assert found["most"] == {"AllReduce": 8}
    assert found["ranks"] == [
        {"rank": 2, "host": "10.0.0.5", "pid": 73, "launched": {"AllReduce": 7}}
    ]


@pytest.mark.parametrize(
    "said",
    [
        "",
        "OK\nOK\n{",
        '{"communicators": 7}',
        '{"communicators": [{"hash": 1}]}',
        "#0-0 (12) MISMATCH\n  Communicator ranks have different status\n  2 ranks have status INIT\n",
        "#0-0 (12) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21\n",
    ],
)
def test_what_cannot_be_read_is_nothing(said: str) -> None:
    assert [each for each in nccl_ras._communicators(said) if each["ranks"]] == []


def test_only_a_process_that_listens_is_asked() -> None:
    """And no stranger that listens at the port."""
    with listening(JSON) as process:
        assert nccl_ras.ask([os.getpid()], time.monotonic() + 5) == {}
        found = nccl_ras.ask([os.getpid(), process.pid], time.monotonic() + 5)
        assert [each["size"] for each in found[process.pid]] == [2]


@contextlib.contextmanager
def listening(said: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that answers as NCCL does, at a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port), said],
        env={**os.environ, "NCCL_RAS_ADDR": f"localhost:{port}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()
