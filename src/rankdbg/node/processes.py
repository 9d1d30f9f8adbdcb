"""What /proc tells about processes.

A process that hangs in the kernel may hold its memory map's lock, and then reading its
cmdline, environ or maps hangs as well (measured). `stat`, `status` and `wchan` never do:
they come first, and the rest is read with a deadline.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Stat(NamedTuple):
    pid: int
    name: str
    state: str
    ppid: int
    start: int


def _read(path: str) -> bytes:
    """A roster of 500 ranks reads 4,000 files: 15 µs each, with Path.read_text() 67 µs."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


def read_stat(pid: int) -> Stat | None:
    """None if there is no such process."""
    try:
        text = _read(f"/proc/{pid}/stat").decode(errors="replace")
    except OSError:
        return None
    before, _, after = text.rpartition(")")
    fields = after.split()
    return Stat(pid, before.partition("(")[2], fields[0], int(fields[1]), int(fields[19]))


def is_alive(pid: int, start: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.start == start


def parent(pid: int) -> int:
    """0 if there is no such process."""
    stat = read_stat(pid)
    return stat.ppid if stat is not None else 0


def age(start: int) -> float:
    """For how many seconds a process has been there that started at this tick."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start / os.sysconf("SC_CLK_TCK")


class Thread(NamedTuple):
    cpu_seconds: float = 0.0
    ready_seconds: float = 0.0  # in which it could have run, but others had the processors
    switches: int = 0  # how often it has been put onto a processor


def threads(pid: int) -> list[int]:
    """None of a process that is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def read_thread(pid: int, thread: int) -> Thread:
    """What a thread has done so far; nothing if it is gone."""
    try:
        spent, ready, switches = _read(f"/proc/{pid}/task/{thread}/schedstat").split()
        return Thread(int(spent) / 1e9, int(ready) / 1e9, int(switches))
    except (OSError, ValueError):
        return Thread()


def cpu_seconds(pid: int) -> float:
    """The processor time that the main thread of a process has used."""
    return read_thread(pid, pid).cpu_seconds


def bytes_written(pid: int) -> int:
    """To files, pipes and terminals, so far: a log that grows. 0 where that is not known."""
    try:
        for line in _read(f"/proc/{pid}/io").splitlines():
            if line.startswith(b"wchar:"):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def is_python(pid: int) -> bool:
    try:
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:  # gone, a kernel thread, or another user's
        return False
    return program.startswith(("python", "pypy"))


def command(pid: int) -> list[str]:
    raw = _read(f"/proc/{pid}/cmdline")
    # A title set by the process (setproctitle) is padded with blanks or zeros.
    words = [word.decode(errors="replace") for word in raw.rstrip(b"\0 ").split(b"\0")]
    return [word for word in words if word] if "::" in words[0] else words


def environment(pid: int) -> dict[str, str]:
    entries = _read(f"/proc/{pid}/environ").decode(errors="replace").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def working_directory(pid: int) -> str:
    """`` of one that is gone, or another user's."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def option(command: Sequence[str], names: Sequence[str]) -> str:
    """The value of an option: -oVALUE, --output=VALUE, or the next word; `` if it is not there."""
    for place, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else "".join(command[place + 1 : place + 2])
        if word[:2] in names:
            return word[2:]
    return ""


def read_all(
    keys: Iterable[K], read: Callable[[K], T], patience: float = 0.5
) -> tuple[dict[K, T], list[K]]:
    """read(key) for every key, and the keys on which it hung for longer than `patience`.

    A thread that hangs in the kernel cannot be stopped; it is left alone, and another
    takes up the rest. One that was only slow goes on beside that, and what it reads counts.
    Keys for which read() raises OSError are left out.
    """
    wanted = list(keys)
    waiting = iter(wanted)
    begun: list[K] = []
    finished: queue.SimpleQueue[tuple[K, T | None] | None] = queue.SimpleQueue()

    def read_each() -> None:
        for key in waiting:
            begun.append(key)
            try:
                finished.put((key, read(key)))
            except OSError:
                finished.put((key, None))
        finished.put(None)

    results: dict[K, T] = {}
    done: set[K] = set()
    given_up: set[K] = set()
    all_begun = False
    threading.Thread(target=read_each, daemon=True).start()
    while not all_begun or set(wanted) - done - given_up:
        try:
            item = finished.get(timeout=patience)
        except queue.Empty:
            hanging = set(wanted if all_begun else begun) - done - given_up
            given_up |= hanging
            if hanging and not all_begun:  # else the thread has not had the processor
                threading.Thread(target=read_each, daemon=True).start()
            continue
        if item is None:
            all_begun = True
            continue
        done.add(item[0])
        if item[1] is not None:
            results[item[0]] = item[1]
    return results, [key for key in wanted if key not in done]


def explain_state(stat: Stat) -> str:
    """Why a process in this state does nothing, in words; `` for the ordinary states."""
    match stat.state:
        case "Z" | "X":
            return f"it has ended, and its parent {stat.ppid} has not collected it (zombie)"
        case "T":
            return f"stopped by a signal; kill -CONT {stat.pid} lets it go on"
        case "t":
            return f"stopped by a debugger: {_tracer(stat.pid)}"
        case "D":
            place = waiting_in(stat.pid)
            return "process is in state D" + (f": {place}" if place else "")
    return ""


def waiting_in(pid: int) -> str:
    """The function of the kernel in which its main thread sleeps."""
    try:
        name = _read(f"/proc/{pid}/wchan").decode()
    except OSError:
        return ""
    return name if name != "0" else ""


def _tracer(pid: int) -> str:
    tracer = status_field(pid, "TracerPid")
    if not tracer or tracer == "0":
        return "an unknown one"
    stat = read_stat(int(tracer))
    return f"process {tracer}" + (f" ({stat.name})" if stat else "")


def status_field(pid: int | str, name: str) -> str:
    try:
        for line in _read(f"/proc/{pid}/status").decode(errors="replace").splitlines():
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""


_CONTAINER_LACKS = (
    "the container lacks SYS_PTRACE",
    'in the pod spec: securityContext: {capabilities: {add: ["SYS_PTRACE"]}}',
)


def why_no_ptrace(pid: int) -> tuple[str, str]:
    """Why this user may not look into that process, and what to change."""
    uid = (status_field(pid, "Uid").split() or [""])[0]
    if not uid:
        return f"process {pid} is gone", ""
    if os.geteuid() not in (0, int(uid)):
        return f"process {pid} belongs to uid {uid}", "run rankdbg as that user, or as root"
    if os.geteuid() == 0 and not _may_trace_all():
        return _CONTAINER_LACKS
    scope = _yama_scope()
    if scope == 1:
        return (
            "kernel.yama.ptrace_scope is 1: only a parent may look into a process",
            "start the job with rankdbg run, or: sysctl kernel.yama.ptrace_scope=0",
        )
    if scope in (2, 3):
        return (
            f"kernel.yama.ptrace_scope is {scope}",
            "run rankdbg as root" if scope == 2 else "the machine must be restarted to change it",
        )
    if os.geteuid() != 0 and os.stat(f"/proc/{pid}").st_uid != int(uid):
        return f"process {pid} is not dumpable (it has changed its user)", "run rankdbg as root"
    if not _may_trace_all():
        return _CONTAINER_LACKS
    return "ptrace is not permitted here", "look at the container's seccomp profile"


def _may_trace_all() -> bool:
    """Whether this process has CAP_SYS_PTRACE, which root in a container may lack."""
    return bool(int(status_field("self", "CapEff") or "0", 16) >> 19 & 1)


def _yama_scope() -> int:
    try:
        return int(_read("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return 0
