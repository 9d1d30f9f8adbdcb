"""The system call of a real process, and its timer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rankdbg.node.machine import syscalls
from waiting import wait_for

BEFORE = """
import asyncio, os, queue, select, signal, socket, threading, time
ours, theirs = socket.socketpair()
"""


@contextmanager
def process(code: str) -> Iterator[int]:
    words = [sys.executable, "-c", BEFORE + code]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as waiting:
        try:
            yield waiting.pid
        finally:
            waiting.kill()


def wait_in(pid: int, *calls: str) -> syscalls.SyscallWait:
    """As soon as it is in one of these calls and that could be read in one go."""

    def found() -> syscalls.SyscallWait | None:
        wait = syscalls.waits_in(pid)
        return wait if wait.call in calls and wait.timer is not None else None

    return wait_for(found, lambda: syscalls.waits_in(pid))


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("threading.Event().wait(1000)", ("futex",)),
        ("queue.Queue().get(timeout=1000)", ("futex",)),
        ("time.sleep(1000)", ("clock_nanosleep", "nanosleep")),
        ("select.select([ours], [], [], 1000)", ("select", "pselect6")),
        ("ours.settimeout(1000); ours.recv(1)", ("poll", "ppoll")),
        ("asyncio.run(asyncio.sleep(1000))", ("epoll_wait", "epoll_pwait", "epoll_pwait2")),
        ("signal.sigtimedwait([signal.SIGUSR1], 1000)", ("rt_sigtimedwait",)),
    ],
)
def test_timer_of_a_wait(code: str, calls: tuple[str, ...]) -> None:
    """What remains of it, in seconds."""
    with process(code) as pid:
        timer = wait_in(pid, *calls).timer
    assert timer is not None
    assert 500 < timer <= 1000


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("threading.Event().wait()", ("futex",)),
        ("ours.recv(1)", ("recvfrom",)),
        ("select.select([ours], [], [])", ("select", "pselect6")),
        ("select.poll().poll()", ("poll", "ppoll")),
        ("asyncio.run(asyncio.Event().wait())", ("epoll_wait", "epoll_pwait", "epoll_pwait2")),
    ],
)
def test_wait_without_a_timer(code: str, calls: tuple[str, ...]) -> None:
    """It ends when something happens."""
    with process(code) as pid:
        assert wait_in(pid, *calls).timer == 0.0


def test_process_that_is_gone() -> None:
    """Has no call."""
    assert syscalls.waits_in(2**22 + 1) == syscalls.SyscallWait()
