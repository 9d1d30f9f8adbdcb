"""Who owes what a process waits for: real pipes, sockets, connections, locks and children."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import small_programs
from rankdbg.node.machine import processes, wait_owners
from waiting import wait_for

# Each prints the pids of who waits and who owes, and never ends by itself.
WAITS = {
    "pipe": """
r, w = os.pipe()
child = os.fork()
if not child:
    os.close(r)
    signal.pause()
os.close(w)
print(json.dumps([os.getpid(), child]), flush=True)
os.read(r, 1)
""",
    "pipe that nobody reads": """
r, w = os.pipe()
child = os.fork()
if not child:
    os.close(w)
    signal.pause()
os.close(r)
print(json.dumps([os.getpid(), child]), flush=True)
while True:
    os.write(w, bytes(1 << 16))
""",
    "socket": """
here, there = socket.socketpair()
child = os.fork()
if not child:
    here.close()
    signal.pause()
there.close()
print(json.dumps([os.getpid(), child]), flush=True)
here.recv(1)
""",
    "connection": """
listening = socket.create_server(("127.0.0.1", 0))
child = os.fork()
if not child:
    accepted, _ = listening.accept()
    listening.close()
    accepted.send(b"x")
    signal.pause()
here = socket.create_connection(listening.getsockname())
listening.close()
here.recv(1)
print(json.dumps([os.getpid(), child]), flush=True)
here.recv(1)
""",
    "selected connection": """
listening = socket.create_server(("127.0.0.1", 0))
child = os.fork()
if not child:
    accepted, _ = listening.accept()
    accepted.send(b"x")
    signal.pause()
here = socket.create_connection(listening.getsockname())
here.recv(1)
print(json.dumps([os.getpid(), child]), flush=True)
select.select([here], [], [])
""",
    "watched socket": """
here, there = socket.socketpair()
child = os.fork()
if not child:
    here.close()
    signal.pause()
there.close()
print(json.dumps([os.getpid(), child]), flush=True)
watch = select.epoll()
watch.register(here)
watch.modify(here, select.EPOLLIN)
watch.poll()
""",
    "lock": """
file = open(sys.argv[1], "w")
child = os.fork()
if not child:
    file = open(sys.argv[1], "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    print(json.dumps([os.getppid(), os.getpid()]), flush=True)
    signal.pause()
while True:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        break
fcntl.flock(file, fcntl.LOCK_EX)
""",
    "lock that the one who took it has left to its child": """
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
child = os.fork()
if not child:
    signal.pause()
file.close()
print(json.dumps([os.getpid(), child]), flush=True)
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
""",
    "child": """
child = os.fork()
if not child:
    signal.pause()
print(json.dumps([os.getpid(), child]), flush=True)
os.waitpid(child, 0)
""",
    "any child": """
child = os.fork()
if not child:
    signal.pause()
print(json.dumps([os.getpid(), child]), flush=True)
os.wait()
""",
    "connection that is not accepted": """
listening = socket.create_server(("127.0.0.1", 0))
child = os.fork()
if not child:
    signal.pause()
here = socket.create_connection(listening.getsockname())
listening.close()
print(json.dumps([os.getpid(), child]), flush=True)
here.recv(1)
""",
    "Unix socket that is not accepted": """
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
child = os.fork()
if not child:
    signal.pause()
listening.close()
here = socket.socket(socket.AF_UNIX)
here.connect(sys.argv[1])
print(json.dumps([os.getpid(), child]), flush=True)
here.recv(1)
""",
    "lock that is tried again and again": """
child = os.fork()
file = open(sys.argv[1], "w")
if not child:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print(json.dumps([os.getppid(), os.getpid()]), flush=True)
    signal.pause()
while True:
    time.sleep(1000)
""",
}
KINDS = {
    "any child": "child",
    "connection that is not accepted": "listener",
    "Unix socket that is not accepted": "listener",
    "lock that is tried again and again": "polled",
    "lock that the one who took it has left to its child": "lock",
    "pipe that nobody reads": "pipe",
    "selected connection": "connection",
    "watched socket": "socket",
}
IMPORTS = "import fcntl, json, os, select, signal, socket, subprocess, sys, threading, time\n"


def running(program: str, *words: object) -> AbstractContextManager[list[int]]:
    return small_programs.running(IMPORTS + program, *words)


def look(pid: int) -> list[dict[str, Any]]:
    status = processes.read_stat(pid)
    assert status is not None
    (found,) = wait_owners.look([(pid, status.start)]).values()
    return list(found["processes"])


def at_connections(pid: int) -> list[tuple[tuple[int, ...], int, bool]]:
    things = [thing for each in look(pid) for thing in each["things"]]
    return [(thing["owners"], thing["unread"], thing["accepted"]) for thing in things]


@pytest.mark.parametrize("kind", WAITS)
def test_who_owes_it(kind: str, tmp_path: Path) -> None:
    """The process at the other end; it waits for nobody."""
    with running(WAITS[kind], tmp_path / "index.lock") as (waits, owes):
        seen: list[Any] = []

        def found() -> bool:
            seen[:] = look(waits)
            return [thing["owners"] for each in seen for thing in each["things"]] == [(owes,)]

        wait_for(found, lambda: seen)
        first, last = seen
        assert [thing["kind"] for thing in first["things"]] == [KINDS.get(kind, kind)]
        assert (first["pid"], last["pid"], last["things"]) == (waits, owes, [])
        if kind == "lock":
            assert first["things"][0]["name"] == str(tmp_path / "index.lock")


def test_a_chain() -> None:
    """From a process through its child to whom that one waits for."""
    program = """
r, w = os.pipe()
writer = os.fork()
if not writer:
    signal.pause()
child = os.fork()
if not child:
    os.close(w)
    os.read(r, 1)
os.close(w)
print(json.dumps([os.getpid(), child, writer]), flush=True)
os.waitpid(child, 0)
"""
    with running(program) as chain:
        wait_for(lambda: [each["pid"] for each in look(chain[0])] == chain)


def test_what_was_sent_and_not_read() -> None:
    """Through the connection at which a process waits."""
    program = """
server = socket.create_server(("127.0.0.1", 0))
child = os.fork()
if not child:
    there = server.accept()[0]
    there.recv(1)
    signal.pause()
here = socket.create_connection(server.getsockname())
here.sendall(b"12345678")
print(json.dumps([os.getpid(), child]), flush=True)
here.recv(1)
"""
    with running(program) as (waits, owes):
        wait_for(lambda: at_connections(waits) == [((owes,), 7, False)], lambda: look(waits))


def test_a_server_of_both_internet_protocols() -> None:
    """The kernel lists its end of a connection from an IPv4 address among those of IPv6."""
    program = """
server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
child = os.fork()
if not child:
    there = server.accept()[0]
    signal.pause()
here = socket.create_connection(("127.0.0.1", server.getsockname()[1]))
server.close()
print(json.dumps([os.getpid(), child]), flush=True)
here.recv(1)
"""
    with running(program) as (waits, owes):
        wait_for(lambda: at_connections(waits) == [((owes,), 0, False)], lambda: look(waits))


def test_a_connection_that_was_accepted() -> None:
    """By the process that listens: the other end has opened it."""
    program = """
server = socket.create_server(("127.0.0.1", 0))
child = os.fork()
if not child:
    there = socket.create_connection(server.getsockname())
    signal.pause()
here = server.accept()[0]
print(json.dumps([os.getpid(), child]), flush=True)
here.recv(1)
"""
    with running(program) as (waits, owes):
        wait_for(lambda: at_connections(waits) == [((owes,), 0, True)], lambda: look(waits))


def test_a_connection_to_another_machine() -> None:
    """Nobody here has its other end: its addresses are told."""
    program = """
here = socket.socket()
here.bind(("127.0.0.1", 0))
print(json.dumps([os.getpid()]), flush=True)
here.connect(("127.0.0.1", int(sys.argv[1])))
here.recv(1)
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with running(program, port) as (pid,):
            (thing,) = wait_for(lambda: look(pid)[0]["things"])
            assert thing["owners"] == ()
            assert thing["remote"] == f"127.0.0.1:{port}"
            assert thing["local"].startswith("127.0.0.1:")
            mirrored = thing["remote"], thing["local"]
            accepted, _ = server.accept()
            me = (os.getpid(), processes.read_stat(os.getpid()).start)  # type: ignore[union-attr]
            assert wait_owners.look([me], {mirrored})[me]["holds"] == [mirrored]
            accepted.close()


@pytest.mark.parametrize("relative", [False, True])
def test_a_named_pipe_that_nobody_opens(tmp_path: Path, relative: bool) -> None:
    """Nobody owes it; its name is told as the program has it."""
    os.mkfifo(tmp_path / "shard")
    program = """
os.chdir(os.path.dirname(sys.argv[1]))
path = "shard" if sys.argv[2] == "True" else sys.argv[1]
print(json.dumps([os.getpid()]), flush=True)
open(path)
"""
    with running(program, tmp_path / "shard", relative) as (pid,):
        (thing,) = wait_for(lambda: look(pid)[0]["things"])
        name = "shard" if relative else str(tmp_path / "shard")
        assert (thing["kind"], thing["name"], thing["owners"]) == ("fifo", name, ())


def test_a_process_that_computes() -> None:
    """Waits for nothing."""
    with running("print(json.dumps([os.getpid()]), flush=True)\nwhile True: pass") as (pid,):
        (about,) = look(pid)
        assert about["things"] == []
        assert about["command"].startswith(os.path.basename(sys.executable) + " -")


def test_ranks_that_wait_for_each_other_end() -> None:
    """A circle of two."""
    program = """
here, there = socket.socketpair()
child = os.fork()
mine, other = (here, there) if child else (there, here)
other.close()
if child:
    print(json.dumps([os.getpid(), child]), flush=True)
mine.recv(1)
"""
    with running(program) as (one, two):
        wait_for(
            lambda: (
                [thing["owners"] for p in look(one) for thing in p["things"]] == [(two,), (one,)]
            )
        )


THREAD_AT_A_PIPE = """
ends = os.pipe()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], pass_fds=ends)
thread = threading.Thread(target=os.read, args=(ends[0], 1), daemon=True)
thread.start()
os.close(ends[1])
print(json.dumps([os.getpid(), thread.native_id, child.pid]), flush=True)
threading.Event().wait()
"""


def test_thread_that_waits_at_a_pipe() -> None:
    """Of another thread than the main one: its own wait, and the processes behind it."""
    with running(THREAD_AT_A_PIPE) as (pid, thread, child):
        status = processes.read_stat(pid)
        assert status is not None
        key = pid, status.start
        seen: list[Any] = []

        def found() -> bool:
            seen[:] = [wait_owners.look([key], threads=[(pid, thread)])[key]]
            (told,) = seen[0]["threads"]
            owners = [thing["owners"] for thing in told["things"]]
            return told["native"] == thread and owners == [(child,)]

        wait_for(found, lambda: seen)
        assert [process["pid"] for process in seen[0]["processes"]] == [child]
