"""Whatever comes in on the socket, the agent lives and the rank does not notice."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from agents import Programs, memory, wait_for
from rankdbg import wire
from rankdbg.node.relay import NoAnswer
from waiting import PATIENCE

# Without json loaded: that is when a scanner's complaint has no words.
WAITS = "import sys; assert 'json' not in sys.modules; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def rank(programs: Programs) -> Iterator[Any]:
    """A program that must end without a word and with status 0, after all of it."""
    program = programs.start(WAITS, stdin=subprocess.PIPE)
    yield program
    assert programs.answers(program.pid)
    assert program.communicate("", timeout=PATIENCE) == ("", "")
    assert program.returncode == 0


def until_hung_up(connection: socket.socket) -> bytes:
    received = b""
    try:
        while data := connection.recv(1 << 16):
            received += data
    except ConnectionResetError:  # it did not read all that was sent
        pass
    return received


def greeted(programs: Programs, pid: int) -> socket.socket:
    connection = programs.connect(pid)
    connection.sendall(wire.encode(wire.hello()))
    assert wire.decode(connection.recv(1000))["hello"] == "rankdbg"
    return connection


def line(connection: socket.socket) -> Any:
    return wire.decode(connection.makefile("rb").readline())


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes(programs: Programs, rank: Any, seed: int) -> None:
    """Random bytes are hung up on."""
    with programs.connect(rank.pid) as connection:
        connection.sendall(random.Random(seed).randbytes(10_000) + b"\n")
        until_hung_up(connection)
    assert isinstance(programs.ask(rank.pid, "ping"), dict)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a" 1}',
        b'{"a": "',
        b'{"a": "\\q"}',
        b"{1: 2}",
        b"[" * 100_000,
        b"nul",
        b"[]",
        b"1",
        b"",
        b"\xff",
        b"{}",
        b'{"hello": "rankdbg"}',
        b'{"hello": "rankdbg", "protocol": [true, 0]}',
        b"GET / HTTP/1.1",
    ],
)
def test_no_hello(programs: Programs, rank: Any, text: bytes) -> None:
    """What is no hello is hung up on, after the agent's own hello."""
    with programs.connect(rank.pid) as connection:
        connection.sendall(text + b"\n")
        received = until_hung_up(connection)
    assert received in (b"", wire.encode(wire.hello()))


def test_half_a_message(programs: Programs, rank: Any) -> None:
    """Clients that stop in the middle of a message hold up nobody."""
    silent = [programs.connect(rank.pid) for _ in range(20)]
    for connection in silent:
        connection.sendall(b'{"hello": "ran')
    assert programs.answers(rank.pid)
    assert programs.evaluate(rank.pid, "1 + 1")["text"] == "2"
    for connection in silent:
        connection.close()


def test_endless_line(programs: Programs, rank: Any) -> None:
    """Of 100 MB without an end the rank takes in a few, and hangs up."""
    before = memory(rank.pid)
    with greeted(programs, rank.pid) as connection:
        sent = 0
        try:
            while sent < 100 << 20:
                sent += connection.send(b"x" * (1 << 20))
        except OSError:  # hung up
            pass
    assert sent < 100 << 20
    assert memory(rank.pid) - before < 8 << 20


@pytest.mark.parametrize("protocol", [[2, 0], [1, 7], [0, 0], [1], "1", None, [1, 0, 0]])
def test_wrong_version(programs: Programs, rank: Any, protocol: Any) -> None:
    """Another version is hung up on; the agent's hello has told it the agent's own."""
    with programs.connect(rank.pid) as connection:
        hello = wire.encode({**wire.hello(), "protocol": protocol})
        connection.sendall(hello + wire.encode({"id": 1, "ask": "ping"}))
        received = until_hung_up(connection)
    assert received in (b"", wire.encode(wire.hello()))


def test_unknown_question(programs: Programs, rank: Any) -> None:
    """A question that the agent does not know is answered with just that."""
    answer = programs.ask(rank.pid, "the time")
    assert answer == NoAnswer("error", "unknown question 'the time'")


def test_long_unknown_question(programs: Programs, rank: Any) -> None:
    """A long unknown question is not sent back in full."""
    answer = programs.ask(rank.pid, "x" * 100_000)
    assert len(answer.detail) < 200


@pytest.mark.parametrize(
    "arguments",
    [
        {"expression": None},
        {"expression": "1", "timeout": "soon"},
        {"expression": "1", "timeout": -1},
        {"expression": "1", "timeout": 1e300},
        {"expression": "1", "timeout": float("nan")},
        {"expression": "1", "frame": [1]},
        {"expression": "1", "frame": {}},
        {"expression": "1", "frame": -1},
        {"expression": "1", "thread": {"a": 1}},
        {"expression": "1", "thread": True},
        {"expression": "\0"},
        {"expression": "(" * 1000},
        {"expression": "\ud800"},
        {},
    ],
)
def test_senseless_arguments(programs: Programs, rank: Any, arguments: dict[str, Any]) -> None:
    """Arguments that make no sense are answered, and cost nothing."""
    answer = programs.ask(rank.pid, "evaluate", seconds=PATIENCE, **arguments)
    assert isinstance(answer, (dict, NoAnswer))
    assert getattr(answer, "why", "") not in ("unheard", "closed")
    assert answer != NoAnswer("late")


def test_message_that_is_not_an_object(programs: Programs, rank: Any) -> None:
    """After a good hello, garbage ends that connection and no other."""
    with greeted(programs, rank.pid) as connection:
        connection.sendall(b"[1, 2, 3]\n")
        assert until_hung_up(connection) == b""


def test_questions_one_after_the_other(programs: Programs, rank: Any) -> None:
    """One connection can carry many questions; each answer has its question's id."""
    with greeted(programs, rank.pid) as connection:
        asked = [wire.encode({"id": number, "ask": "ping"}) for number in range(100)]
        connection.sendall(b"".join(asked))
        answers = connection.makefile("rb")
        assert [wire.decode(answers.readline())["id"] for _ in range(100)] == list(range(100))


@pytest.mark.parametrize("sigpipe", ["SIG_IGN", "SIG_DFL"])
def test_client_that_leaves_during_the_answer(programs: Programs, sigpipe: str) -> None:
    """A client that hangs up while it is answered harms nobody, also where SIGPIPE kills."""
    code = f"""
        import signal, sys
        signal.signal(signal.SIGPIPE, signal.{sigpipe})
        print("ready", flush=True)
        sys.stdin.read()
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    for _ in range(20):
        with greeted(programs, program.pid) as connection:
            question = wire.encode({"id": 1, "ask": "environment"})
            connection.sendall(question * 200)  # more than fits between the two
    assert programs.answers(program.pid)
    descriptors = f"/proc/{program.pid}/fd"
    wait_for(lambda: len(os.listdir(descriptors)) == 4, "its connections are closed")
    assert program.communicate("", timeout=PATIENCE) == ("", "")
    assert program.returncode == 0


def test_many_clients_at_once(programs: Programs, rank: Any) -> None:
    """Two hundred connections are served, and leave nothing behind."""
    connections = [greeted(programs, rank.pid) for _ in range(200)]
    for connection in connections:
        connection.sendall(wire.encode({"id": 1, "ask": "ping"}))
    assert [line(connection)["answer"] for connection in connections] == [{}] * 200
    for connection in connections:
        connection.close()
    wait_for(lambda: len(os.listdir(f"/proc/{rank.pid}/task")) <= 3, "its threads end")
    wait_for(lambda: len(os.listdir(f"/proc/{rank.pid}/fd")) <= 5, "its connections are closed")


def test_no_thread_to_be_had(programs: Programs) -> None:
    """Where no thread can be started a client is hung up on, and no descriptor closed twice."""
    code = """
        import os, resource, sys, threading
        own = [open("/dev/null") for _ in range(50)]
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (1 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        # Stacks of threads that have ended are kept, and would serve others; also of one that
        # has just answered and has yet to end.
        none_left = False
        while not none_left:
            known = threading.active_count()
            alone = len(os.listdir("/proc/self/task")) == known + 1  # with the one that listens
            try:
                while True:
                    threading.Thread(target=threading.Event().wait, daemon=True).start()
            except RuntimeError:
                none_left = alone and threading.active_count() == known
        print("ready", flush=True)
        sys.stdin.readline()
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        for file in own:
            file.close()
        sys.stdin.read()
    """
    program = programs.start(code, stdin=subprocess.PIPE)
    for _ in range(20):
        assert programs.ask(program.pid, "ping").why == "unheard"
    program.stdin.write("\n")
    program.stdin.flush()
    wait_for(lambda: programs.answers(program.pid))
    assert program.communicate("", timeout=PATIENCE) == ("", "")
