"""The process that the shell or the scheduler started: it runs the command, forwards signals to it
and returns its status.

Watching happens in a separate process (beside.py), because inspecting a job can fail in many
ways. Here is only what must not fail: one wait for signals, waitpid and killpg. Everything for the
watching process goes through _attempt(): the command keeps running without it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankdbg import _version
from rankdbg.frontends.job_commands import Command
from rankdbg.text.escapes import visible_line

# Evidence is collected before these signals reach the command.
COLLECTS_FIRST = frozenset(
    {
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGXCPU,
    }
)
# These do not concern the command, cannot be handled, or are faults of this process.
_NOT_PASSED_ON = frozenset(
    {
        signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGIO, signal.SIGTTIN,
        signal.SIGTTOU, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGSEGV, signal.SIGBUS,
        signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGSYS,
    }
)  # fmt: skip
# Between SIGTERM and SIGKILL.
ABORT_SECONDS = 15.0
# How long the watching process may finish a collection after the end of the command.
FAREWELL_SECONDS = 10.0
# Between two starts of a watching process that ends by itself.
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
_FROM_KERNEL = 0x80  # SI_KERNEL: a terminal's ^C, and not a process that sent it

# What the watching process says, a line each, on this descriptor.
NEWS = 3
COLLECTED = b"collected"  # and a number: the signal may be passed on
EVERYWHERE = (
    b"everywhere"  # and a number: the sender has sent it to all processes, the command's too
)
HUNG = b"hung"  # end the command, as --abort asks for

# Without the current directory, which may hold a `json.py`.
_START = (
    "import sys; sys.path[:] = [sys.argv.pop(1), *filter(None, sys.path)]; "
    "from rankdbg.frontends.watch.beside import main; main()"
)


class Supervisor:
    """`order`: what the watching process is to do; None: nothing is watched."""

    def __init__(
        self, command: Command, order: dict[str, Any] | None, grace: float, exit_status: int
    ) -> None:
        self._order = order
        self._grace = grace
        self._exit_hung = exit_status
        self._aborting_until: float | None = None
        self._held: list[int] = []  # signals that wait for a collection
        self._held_until = 0.0
        self._collection = 0  # the number of the one that they wait for
        self._said = ""  # of how the watching process has ended
        self._watching = _Watching() if order is not None else None
        _occupy_standard_descriptors()
        # A shell that ignores SIGCHLD has its children do so too, and then no status is kept.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._taken = _taken_signals()
        self._mask: set[int] = signal.pthread_sigmask(
            signal.SIG_BLOCK, {*self._taken, signal.SIGTTOU, signal.SIGTTIN}
        )
        self._terminal = _Terminal()
        try:
            self._pid = _spawn(command, self._mask)
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            raise
        self._terminal.give(self._pid)

    def run(self) -> int:
        """Until the command has ended; its status, as a shell has it."""
        try:
            while (status := self._step()) is None:
                pass
        except Exception:  # a fault of ours
            status = self._only_wait()
        self._attempt(self._terminal.take_back)
        if self._aborting_until is not None:
            self._signal(signal.SIGKILL)  # what is left of its group
        self._attempt(self._end_watching)
        return self._exit_hung if self._aborting_until is not None else _as_shell(status)

    def _only_wait(self) -> int:
        while True:
            info = signal.sigtimedwait(self._taken, 1.0)
            if info is not None and info.si_signo not in (signal.SIGCHLD, signal.SIGIO):
                self._signal(info.si_signo)
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return status

    def _step(self) -> int | None:
        """Handle one event; returns the wait status of the command if it has ended."""
        self._attempt(self._watch)
        info = signal.sigtimedwait(self._taken, self._until_next())
        if info is not None:
            self._take(info)
        if self._watching is not None:
            self._attempt(self._listen)
        now = time.monotonic()
        if self._held and now >= self._held_until:
            self._pass_on_held()
        if self._aborting_until is not None and now >= self._aborting_until:
            self._aborting_until = float("inf")
            self._signal(signal.SIGKILL)
        return self._reap()

    def _until_next(self) -> float:
        moments = [self._held_until] if self._held else []
        moments += [self._aborting_until] if self._aborting_until is not None else []
        moments += [self._watching.start_at] if self._watching and not self._watching.pid else []
        # The longest pause is a safety net: the end of a child is always noticed.
        return max(0.0, min([*(m - time.monotonic() for m in moments), 60.0]))

    # --- signals --------------------------------------------------------------------------

    def _take(self, info: signal.struct_siginfo) -> None:
        number = info.si_signo
        if number == signal.SIGCHLD or (number == signal.SIGIO and info.si_code == _FROM_KERNEL):
            return  # the watching process has said something, or a child has ended
        if self._held and number in COLLECTS_FIRST:  # the sender means it
            self._held.append(number)
            self._pass_on_held()
        elif number in COLLECTS_FIRST and info.si_code != _FROM_KERNEL and self._collects(info):
            self._held.append(number)
            self._held_until = time.monotonic() + self._grace
        else:
            self._signal(number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)
        if number == signal.SIGCONT:
            self._terminal.give(self._pid)

    def _collects(self, info: signal.struct_siginfo) -> bool:
        """Ask for a collection; False if there will be none."""
        if self._watching is None or not self._grace or self._aborting_until is not None:
            return False
        try:
            self._collection += 1
            order = {
                "collection": self._collection,
                "signal": signal.Signals(info.si_signo).name,
                "sender": _name_of(info.si_pid),
                "seconds": self._grace,
            }
            return self._watching.say(order)
        except Exception:
            return False

    def _pass_on_held(self) -> None:
        held, self._held = self._held, []
        for number in held:
            self._signal(number)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._pid, number)

    def _reap(self) -> int | None:
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return None
            if not os.WIFSTOPPED(status):
                return status
            with contextlib.suppress(Exception):
                self._stopped(os.WSTOPSIG(status))

    def _stopped(self, number: int) -> None:
        """Ctrl-Z in the group of the command: stop this process too, so that the shell notices."""
        if number in (signal.SIGTTIN, signal.SIGTTOU) and self._terminal.give(self._pid):
            self._signal(signal.SIGCONT)  # it was faster than we with the terminal
        elif self._terminal.is_there:
            self._terminal.take_back()
            os.kill(os.getpid(), signal.SIGSTOP)

    # --- the watching process ---------------------------------------------------------------

    def _attempt(self, what: Callable[[], object]) -> None:
        with contextlib.suppress(Exception):
            what()

    def _watch(self) -> None:
        watching = self._watching
        if watching is None:
            return
        ended = watching.reap()
        if ended:
            self._pass_on_held()
            self._say_once(f"the watching process has ended ({ended})")
        if not watching.pid and time.monotonic() >= watching.start_at and self._order is not None:
            try:
                watching.start({**self._order, "again": watching.starts > 0})
            except Exception as error:
                self._say_once(f"the watching process cannot start ({error})")

    def _say_once(self, what: str) -> None:
        if what != self._said:
            self._said = what
            say(f"{what}; the command keeps running, and watching restarts")

    def _listen(self) -> None:
        assert self._watching is not None
        for line in self._watching.hear():
            word, _, number = line.partition(b" ")
            if number and int(number) != self._collection:
                continue  # it was too late, and the signals that waited for it have passed
            if word == EVERYWHERE:
                self._held = []  # a second one would tell many programs to end at once
            elif word == COLLECTED:
                self._pass_on_held()
            elif word == HUNG and self._aborting_until is None:
                self._aborting_until = time.monotonic() + ABORT_SECONDS
                self._signal(signal.SIGTERM)
                self._signal(signal.SIGCONT)

    def _end_watching(self) -> None:
        if self._watching is not None:
            self._watching.end(FAREWELL_SECONDS, self._taken)


class _Watching:
    """The watching process, its pipes, and when to restart it."""

    def __init__(self) -> None:
        self.pid = 0
        self.start_at = 0.0
        self.starts = 0
        self.pause = SHORTEST_PAUSE
        self._started = 0.0
        self._orders = self._news = -1
        self._heard = b""

    def start(self, order: dict[str, Any]) -> None:
        self._wait_longer()  # where this fails, it is tried again later
        self._close()
        package = Path(_version.__file__).resolve().parents[1]
        words = [sys.executable, "-c", _START, str(package), "rankdbg.watch"]
        mine, self._orders = os.pipe()
        its = -1
        try:
            self._news, its = os.pipe()
            for descriptor in (self._orders, self._news):
                os.set_blocking(descriptor, False)
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._orders, fcntl.F_SETPIPE_SZ, 1 << 20)
            # SIGIO comes as soon as there is something to read.
            fcntl.fcntl(self._news, fcntl.F_SETOWN, os.getpid())
            flags = fcntl.fcntl(self._news, fcntl.F_GETFL)
            fcntl.fcntl(self._news, fcntl.F_SETFL, flags | os.O_ASYNC)
            places = [(os.POSIX_SPAWN_DUP2, mine, 0), (os.POSIX_SPAWN_DUP2, its, NEWS)]
            # Our signals stay blocked in it until it is ready to outlive them.
            environment = {**os.environ, "RANKDBG": "0"}  # no agent in it
            self.pid = os.posix_spawn(words[0], words, environment, file_actions=places)
        finally:
            for descriptor in (mine, its):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self.starts += 1
        self._started = time.monotonic()
        self._heard = b""
        self.say(order)

    def _wait_longer(self) -> None:
        self.start_at = time.monotonic() + self.pause
        self.pause = min(2 * self.pause, LONGEST_PAUSE)

    def say(self, order: dict[str, Any]) -> bool:
        if not self.pid:
            return False
        data = json.dumps(order).encode() + b"\n"
        return os.write(self._orders, data) == len(data)

    def hear(self) -> list[bytes]:
        if not self.pid:
            return []
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._news, 4096):
                self._heard += data
        *lines, self._heard = self._heard.split(b"\n")
        return lines

    def reap(self) -> str:
        """How it has ended, as text; empty if it has not. Pauses grow while it ends quickly."""
        if not self.pid or not (found := os.waitpid(self.pid, os.WNOHANG))[0]:
            return ""
        self.pid = 0
        if time.monotonic() - self._started > LONGEST_PAUSE:
            self.pause = SHORTEST_PAUSE
            self._wait_longer()
        status = _as_shell(found[1])
        return f"status {status}" if status < 128 else f"signal {status - 128}"

    def end(self, seconds: float, signals: set[int]) -> None:
        """Close its stdin; kill it if it does not exit in time."""
        with contextlib.suppress(OSError):
            os.close(self._orders)
        deadline = time.monotonic() + seconds
        while self.pid and not self.reap():
            left = deadline - time.monotonic()
            if left <= 0:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return
            signal.sigtimedwait(signals, min(left, 1.0))

    def _close(self) -> None:
        for descriptor in (self._orders, self._news):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._orders = self._news = -1


class _Terminal:
    """Ours to give: where we are in the foreground, and all that we have is the terminal. In a
    pipeline (`rankdbg watch ... | less`) another command reads from it."""

    def __init__(self) -> None:
        self.is_there = all(os.isatty(number) for number in (0, 1, 2))
        self._given = False

    def give(self, group: int) -> bool:
        """As a shell does: the command can read from it, and gets its ^C and ^Z."""
        if not self.is_there:
            return False
        with contextlib.suppress(OSError):
            if os.tcgetpgrp(0) in (os.getpgrp(), group):
                os.tcsetpgrp(0, group)
                self._given = True
                return True
        return False

    def take_back(self) -> None:
        if self._given:
            self._given = False
            os.tcsetpgrp(0, os.getpgrp())


def say(text: str) -> None:
    """On stderr, without blocking: messages that cannot be written are dropped."""
    with contextlib.suppress(OSError, ValueError):
        if select.select([], [2], [], 0.5)[1]:
            # So much fits into every pipe that is ready: the write does not wait.
            line = f"rankdbg watch: {visible_line(text)}".encode(errors="backslashreplace")
            os.write(2, line[: select.PIPE_BUF - 1] + b"\n")


def _occupy_standard_descriptors() -> None:
    """Where stdin, stdout or stderr are closed, our pipes must not get their numbers. The command
    finds them closed, as it would without us: these are not inherited."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _taken_signals() -> set[int]:
    """All that the command may want, but what we were started to ignore (nohup): the command
    ignores that too."""
    numbers: set[int] = {signal.SIGCHLD, signal.SIGIO}
    for number in signal.valid_signals() - _NOT_PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            numbers.add(number)
    return numbers


def _spawn(command: Command, mask: set[int]) -> int:
    """In its own process group: a hang ends the whole job and nothing else."""
    settings: dict[str, Any] = {
        "setpgroup": 0,
        "setsigmask": mask,
        # Python ignores these two, and what is ignored stays so in the command.
        "setsigdef": [signal.SIGPIPE, signal.SIGXFSZ],
    }
    words, environment = command.words, command.environment
    try:
        return os.posix_spawn(command.program, words, environment, **settings)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    # A script without #!: as every shell does.
    words = ["/bin/sh", command.program, *words[1:]]
    return os.posix_spawn("/bin/sh", words, environment, **settings)


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip() if pid else ""
    except OSError:
        return ""


def _as_shell(status: int) -> int:
    """128 and the signal."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code
