"""Who holds the mutex for which a thread waits: real ones of the C library, and what is none."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import small_programs
from rankdbg.node.machine import mutexes, processes, syscalls, wait_owners
from waiting import wait_for

# `c` is the C library; `thing` has room for any of its mutexes, conditions and semaphores.
BEGIN = """
import ctypes, json, os, signal, sys, threading, time
c = ctypes.CDLL(None)
thing, other, kind = (ctypes.create_string_buffer(128) for _ in range(3))
held = threading.Event()

def holds(stand):
    def run():
        c.pthread_mutex_lock(thing)
        held.set()
        stand()
        c.pthread_mutex_unlock(thing)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    held.wait()
    return thread.native_id

def say(*numbers):
    print(json.dumps([os.getpid(), *numbers]), flush=True)
"""
SET_KIND = """
c.pthread_mutexattr_init(kind)
c.{}(kind, {})
c.pthread_mutex_init(thing, kind)
"""
HELD = "say(holds(signal.pause))\nc.pthread_mutex_lock(thing)"
# Each with the numbers of the process, and of the thread that holds the mutex.
MUTEXES = {
    "ordinary": HELD,
    "recursive": SET_KIND.format("pthread_mutexattr_settype", 1) + HELD,
    "that checks errors": SET_KIND.format("pthread_mutexattr_settype", 2) + HELD,
    "adaptive": SET_KIND.format("pthread_mutexattr_settype", 3) + HELD,
    "robust": SET_KIND.format("pthread_mutexattr_setrobust", 1) + HELD,
    "that inherits priority": SET_KIND.format("pthread_mutexattr_setprotocol", 1) + HELD,
    "of several processes": SET_KIND.format("pthread_mutexattr_setpshared", 1) + HELD,
    "taken twice": "c.pthread_mutex_lock(thing)\nsay(os.getpid())\nc.pthread_mutex_lock(thing)",
}
# What waits in the same system call, and is no mutex, or one that no thread of the process holds.
OTHERS = {
    "condition": """
c.pthread_mutex_lock(other)
say()
c.pthread_cond_wait(thing, other)
""",
    "semaphore": "c.sem_init(thing, 0, 0)\nsay()\nc.sem_wait(thing)",
    "lock of Python": "lock = threading.Lock()\nlock.acquire()\nsay()\nlock.acquire()",
    "event of Python": "say()\nthreading.Event().wait()",
    "lock for reading": """
thread = threading.Thread(target=lambda: [c.pthread_rwlock_wrlock(thing), held.set(), signal.pause()])
thread.start()
held.wait()
say()
c.pthread_rwlock_rdlock(thing)
""",
    "barrier": "c.pthread_barrier_init(thing, None, 2)\nsay()\nc.pthread_barrier_wait(thing)",
    "mutex with a time": """
holds(signal.pause)
until = (ctypes.c_long * 2)(int(time.time()) + 1000, 0)
say()
c.pthread_mutex_timedlock(thing, until)
""",
    # The number 2, with which a mutex waits, and behind it what fits no mutex.
    "number": """
numbers = (ctypes.c_int * 10)(2, 0, threading.get_native_id(), 1, 1 << 20)
say()
c.syscall(202 if os.uname().machine == "x86_64" else 98, numbers, 0, 2, None)
""",
}


def running(program: str) -> AbstractContextManager[list[int]]:
    return small_programs.running(BEGIN + program)


@pytest.mark.parametrize("kind", MUTEXES)
def test_mutex(kind: str) -> None:
    """Its holder, whatever kind of mutex it is."""
    with running(MUTEXES[kind]) as (pid, holder):
        found = wait_for(lambda: mutexes.find(pid))
        assert found.holder == holder
        assert found.address


@pytest.mark.parametrize("kind", OTHERS)
def test_no_mutex(kind: str) -> None:
    """The twins: nobody holds what a thread waits for there."""
    with running(OTHERS[kind]) as (pid,):
        wait_for(lambda: syscalls.futex_wait(pid))
        assert mutexes.find(pid) is None


COPIED = """
holds(signal.pause)
child = os.fork()
if not child:
    say()
    c.pthread_mutex_lock(thing)
os.waitpid(child, 0)
"""


def test_mutex_copied_by_a_fork() -> None:
    """No thread of the child holds it, but one of its parent does."""
    with running(COPIED) as (pid,):
        assert wait_for(lambda: mutexes.find(pid)).holder == 0


LIBRARY = """
#include <mutex>
#include <thread>
#include <pthread.h>
#include <unistd.h>
static std::mutex index_lock;
static volatile int held;
static void load() {
    pthread_setname_np(pthread_self(), "loader");
    std::lock_guard<std::mutex> guard(index_lock);
    held = gettid();
    pause();
}
extern "C" int start() { std::thread(load).detach(); while (!held) usleep(100); return held; }
extern "C" void look_up() { std::lock_guard<std::mutex> guard(index_lock); }
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_std_mutex_of_a_library(tmp_path: Path) -> None:
    """Held by a thread without any Python: its name is the kernel's."""
    (tmp_path / "index.cc").write_text(LIBRARY)
    made = tmp_path / "libindex.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", made, tmp_path / "index.cc"], check=True)
    program = f"index = ctypes.CDLL('{made}')\nsay(index.start())\nindex.look_up()"
    with running(program) as (pid, holder):
        status = processes.read_stat(pid)
        assert status is not None
        wait_for(lambda: mutexes.find(pid))
        (found,) = wait_owners.look([(pid, status.start)]).values()
        (process,), (thread,) = found["processes"], found["threads"]
        assert process["mutex"]["holder"] == thread["native"] == holder
        assert (thread["name"], thread["mutex"]) == ("loader", None)


PASSED_ON = """
def take_turns():
    while True:
        c.pthread_mutex_lock(thing)
        c.usleep(1000)
        c.pthread_mutex_unlock(thing)
threading.Thread(target=take_turns, daemon=True).start()
say()
take_turns()
"""


def test_mutex_that_is_passed_on() -> None:
    """Its holder is a thread of the process, if one is found at all."""
    with running(PASSED_ON) as (pid,):
        for _ in range(300):
            found = mutexes.find(pid)
            assert found is None or found.holder in processes.threads(pid)


CHAIN = """
ends = os.pipe()
child = os.fork()
if not child:
    os.close(ends[0])
    signal.pause()
os.close(ends[1])
holder = holds(lambda: os.read(ends[0], 1))
waits = threading.Thread(target=c.pthread_mutex_lock, args=(thing,), daemon=True)
waits.start()
say(waits.native_id, holder, child)
signal.pause()
"""


def test_from_the_holder_on() -> None:
    """What the thread that holds the mutex waits for itself, and the processes behind that."""
    with running(CHAIN) as (pid, waits, holder, child):
        status = processes.read_stat(pid)
        assert status is not None

        def look() -> dict[str, object]:
            (found,) = wait_owners.look([(pid, status.start)], threads=[(pid, waits)]).values()
            return found

        def told() -> list[object]:
            return [(t["native"], (t["mutex"] or {}).get("holder")) for t in look()["threads"]]  # type: ignore[attr-defined]

        wait_for(lambda: told() == [(waits, holder), (holder, None)], look)
        found = look()
        assert [each["call"] for each in found["threads"]] == ["futex", "read"]  # type: ignore[attr-defined]
        assert [thing["owners"] for thing in found["threads"][1]["things"]] == [(child,)]  # type: ignore[index]
        assert [each["pid"] for each in found["processes"]] == [child]  # type: ignore[attr-defined]
