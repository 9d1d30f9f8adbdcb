"""Data about processes from /proc.

A process that hangs in the kernel may hold the lock of its memory map, and then reading its
cmdline, environ or maps hangs as well (measured). `stat`, `status` and `wchan` never do: they
are read first, and the rest with a deadline.
"""

from __future__ import annotations

import os
import threading
import time
from _queue import Empty, SimpleQueue
from collections.abc import Callable, Iterable, Iterator, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple, TypeVar

    K = TypeVar("K")
    T = TypeVar("T")
else:
    from rankdbg.process.named_tuples import NamedTuple

_START, _EXIT_CODE = 18, 48  # among the fields of /proc/PID/stat behind the state
_TICKS = os.sysconf("SC_CLK_TCK")
# They become the parents of processes whose own parent has ended, and have not started them.
_ADOPTERS = frozenset({"systemd", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan"})
MOST_ANCESTORS = 100  # a longer chain was read while pids were reused
_LONGEST_COMMAND = 80
_EXITING = 0x4  # PF_EXITING among the kernel's flags of a process


class Stat(NamedTuple):
    pid: int
    name: str
    state: str
    ppid: int
    start: int
    exiting: bool = False  # it is exiting
    cpu_seconds: float = 0.0  # of all its threads, including those that have ended
    reaped_seconds: float = 0.0  # CPU time of children that have ended


def _read(path: str) -> bytes:
    """A roster of 500 ranks reads 4,000 files: 15 µs each, with Path.read_text() 67 µs."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _stat(pid: int) -> tuple[str, list[str]]:
    """What is before the end of the name, and the fields after it."""
    before, _, after = _read(f"/proc/{pid}/stat").decode(errors="replace").rpartition(")")
    return before, after.split()


def fields_after_name(pid: int) -> list[str]:
    """Of /proc/PID/stat: the state is the first."""
    return _stat(pid)[1]


def read_stat(pid: int) -> Stat | None:
    """None if there is no such process."""
    try:
        before, fields = _stat(pid)
    except OSError:
        return None
    return Stat(
        pid,
        before.partition("(")[2],
        state=fields[0],
        ppid=int(fields[1]),
        start=int(fields[19]),
        exiting=bool(int(fields[6]) & _EXITING),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
        reaped_seconds=(int(fields[13]) + int(fields[14])) / _TICKS,
    )


def is_alive(pid: int, start: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.start == start


def owner(pid: int) -> int | None:
    """The user that it runs as; None if there is no such process. (The owner of /proc/PID may
    differ: it is root for a process that has changed its user.)"""
    users = status_field(pid, "Uid").split()
    return int(users[1]) if len(users) > 1 else None


def namespaces(pid: int | str) -> tuple[str, str]:
    """The names of its PID and mount namespaces, as in `pid:[4026531836]`; empty if unknown."""

    def name(kind: str) -> str:
        try:
            return os.readlink(f"/proc/{pid}/ns/{kind}")
        except OSError:
            return ""

    return name("pid"), name("mnt")


def pid_inside(pid: int) -> int:
    """The pid that a process has in its own PID namespace; 0 if there is no such process."""
    return int((status_field(pid, "NSpid").split() or ["0"])[-1])


def how_it_ended(pid: int, start: int, seconds: float = 0.05) -> str:
    """As text; empty while the process runs. A process closes its files shortly before its end, and
    its status can be read until its parent reaps it. That may be 0.1 ms later, so this polls
    without pause."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state, *fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        except OSError:
            return "its process has ended"
        if int(fields[_START]) != start:
            return "its process has ended"
        if state in b"ZX":
            return _exit_in_words(int(fields[_EXIT_CODE]))
    return ""


def _exit_in_words(status: int) -> str:
    if os.WIFSIGNALED(status):
        try:
            import signal

            return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
        except ValueError:
            return f"killed by signal {os.WTERMSIG(status)}"
    return f"exited with status {os.WEXITSTATUS(status)}"


def parent(pid: int) -> int:
    """0 if there is no such process."""
    stat = read_stat(pid)
    return stat.ppid if stat is not None else 0


def ancestors(ppid: int, start: int, known: dict[int, Stat | None]) -> Iterator[int]:
    """The pids above a process that started at this tick, nearest first, without the first of the
    machine, of a session or of a container, which adopts processes. `known` is filled: ranks share
    their ancestors. A parent that is younger has only the pid of one that is gone."""
    for _ in range(MOST_ANCESTORS):
        if ppid not in known:
            known[ppid] = read_stat(ppid)
        stat = known[ppid]
        if ppid <= 1 or stat is None or stat.start > start or stat.name in _ADOPTERS:
            return
        yield ppid
        ppid, start = stat.ppid, stat.start


def age(start: int) -> float:
    """The age in seconds of a process that started at this tick."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start / _TICKS


class Thread(NamedTuple):
    cpu_seconds: float = 0.0
    ready_seconds: float = 0.0  # runnable, but waiting for a CPU
    switches: int = 0  # how often it was scheduled on a CPU


def threads(pid: int) -> list[int]:
    """Empty for a process that is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def read_thread(pid: int, thread: int) -> Thread:
    """The counters of a thread; None if it is gone."""
    try:
        spent, ready, switches = _read(f"/proc/{pid}/task/{thread}/schedstat").split()
        return Thread(int(spent) / 1e9, int(ready) / 1e9, int(switches))
    except (OSError, ValueError):
        return Thread()


def cpu_seconds(pid: int) -> float:
    """The CPU time of the main thread of a process."""
    return read_thread(pid, pid).cpu_seconds


def bytes_moved(pid: int) -> tuple[int, int]:
    """Read from files, pipes and terminals, and written to them, so far, by all threads. Sockets
    count only where read() and write() are called on them. (0, 0) if unknown."""
    try:
        lines = (line.split() for line in _read(f"/proc/{pid}/io").splitlines())
        counts = {words[0]: int(words[1]) for words in lines}
        return counts[b"rchar:"], counts[b"wchar:"]
    except (OSError, ValueError, IndexError, KeyError):
        return 0, 0


def times_woken(pid: int, thread: int) -> int:
    """How often a thread has begun to wait, which preemption and sched_yield() do not count
    towards."""
    return times_woken_and_ready(pid, thread)[0]


def times_woken_and_ready(pid: int, thread: int) -> tuple[int, bool]:
    """The same, and whether the thread runs or could run."""
    try:  # in half of the time that status_field() takes: a rank may have hundreds of threads
        status = _read(f"/proc/{pid}/task/{thread}/status")
        woken = int(status.rpartition(b"\nvoluntary_ctxt_switches:")[2].split()[0])
        return woken, status.partition(b"\nState:\t")[2][:1] == b"R"
    except (OSError, ValueError, IndexError):
        return 0, False


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def is_python(pid: int) -> bool:
    try:
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:  # gone, a kernel thread, or of another user
        return False
    return program.startswith(("python", "pypy"))


def command(pid: int) -> list[str]:
    raw = _read(f"/proc/{pid}/cmdline")
    # A title set by the process (setproctitle) is padded with spaces or zeros.
    words = [word.decode(errors="replace") for word in raw.rstrip(b"\0 ").split(b"\0")]
    return [word for word in words if word] if "::" in words[0] else words


def short_command(words: Sequence[str]) -> str:
    """What a process runs, in one line: programs and scripts without their folders.

    /opt/venvs/a/bin/python3 -u /home/me/jobs/train.py --lr 3 -> python3 -u train.py --lr 3
    """
    short = [os.path.basename(word) or word if os.path.isabs(word) else word for word in words]
    return " ".join(" ".join(short).split())[:_LONGEST_COMMAND]


def environment(pid: int) -> dict[str, str]:
    entries = _read(f"/proc/{pid}/environ").decode(errors="replace").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def working_directory(pid: int) -> str:
    """Empty if the process is gone or of another user."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def option(command: Sequence[str], names: Sequence[str]) -> str:
    """The value of an option: -oVALUE, --output=VALUE, or the next word; empty if it is missing."""
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

    A thread that hangs in the kernel cannot be stopped; it is abandoned, and another one reads
    the rest. If it was only slow, it continues, and its results count.
    Keys for which read() raises OSError are left out.
    """
    wanted = list(keys)
    waiting = iter(wanted)
    begun: list[K] = []
    finished: SimpleQueue[tuple[K, T | None] | None] = SimpleQueue()

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
        except Empty:
            hanging = set(wanted if all_begun else begun) - done - given_up
            given_up |= hanging
            if hanging and not all_begun:  # otherwise the thread was not scheduled
                threading.Thread(target=read_each, daemon=True).start()
            continue
        if item is None:
            all_begun = True
            continue
        done.add(item[0])
        if item[1] is not None:
            results[item[0]] = item[1]
    return results, [key for key in wanted if key not in done]


def is_left_by_debugger(stat: Stat) -> bool:
    """Each attach of cuda-gdb leaves a dead child in the process, which never reaps it."""
    return stat.state == "Z" and stat.name == "NvDebugAgent"


def explain_state(stat: Stat) -> str:
    """Why a process in this state does nothing, as text; empty for normal states."""
    match stat.state:
        case "Z" | "X":
            return f"it has ended, and its parent {stat.ppid} has not reaped it (zombie)"
        case "T":
            return f"stopped by a signal; {_there()}kill -CONT {stat.pid} resumes it"
        case "t":
            return f"stopped by a debugger: {_tracer(stat.pid)}"
        case "D":
            place = waiting_in(stat.pid)
            return "process is in state D" + (f": {place}" if place else "")
    return ""


def _there() -> str:
    """What a user types before a command to run it on this node; empty for the local machine."""
    return os.environ.get("RANKDBG_THERE", "")


def waiting_in(pid: int) -> str:
    """The kernel function in which its main thread sleeps."""
    try:
        name = _read(f"/proc/{pid}/wchan").decode()
    except OSError:
        return ""
    return name if name != "0" else ""


def is_sampled(stat: Stat) -> bool:
    """Whether a probe stops it for the moment of a stack sample."""
    tracer = status_field(stat.pid, "TracerPid") if stat.state == "t" else ""
    reader = read_stat(int(tracer)) if tracer else None
    return reader is not None and reader.name in ("py-spy", "pystack")


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
    """Why this user may not trace that process, and what to change."""
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
            "kernel.yama.ptrace_scope is 1: only a parent may trace a process",
            "start the job with rankdbg run, or: sysctl kernel.yama.ptrace_scope=0",
        )
    if scope in (2, 3):
        return (
            f"kernel.yama.ptrace_scope is {scope}",
            "run rankdbg as root" if scope == 2 else "changing it requires a reboot",
        )
    if os.geteuid() != 0 and os.stat(f"/proc/{pid}").st_uid != int(uid):
        return f"process {pid} is not dumpable (it has changed its user)", "run rankdbg as root"
    if not _may_trace_all():
        return _CONTAINER_LACKS
    return "ptrace is not permitted here", "check the container's seccomp profile"


def _may_trace_all() -> bool:
    """Whether this process has CAP_SYS_PTRACE, which root in a container may lack."""
    return bool(int(status_field("self", "CapEff") or "0", 16) >> 19 & 1)


def _yama_scope() -> int:
    try:
        return int(_read("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return 0
