"""Stops: threads of this process that are stopped in pdb, and the commands they are given.

A stop is (process, thread, counter). It belongs to the rank: when a client leaves or is killed,
the stop stays. A command and its whole output are one question and one answer, so that the
output of many ranks can be gathered and grouped.

    the thread that stopped          a connection's thread
    -----------------------          ----------------------
    Console.readline()  <----------- Stop.command("p x")
      (pdb wants a command)            waits until pdb wants the next one,
    ... pdb works, writes ...          or until its time is up
    Console.readline()  -----------> output
"""

from __future__ import annotations

import os
import time

from rankdbg.agent import active, announcing, messages, stacks, threads, workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

LONGEST_OUTPUT = 1 << 20
POLL_SECONDS = 0.01
LONGEST_TIMEOUT = 1e8  # a lock accepts no timeout above about 300 years

# Called at the beginning of each stop: hooks.py sets it.
on_stop: Callable[[], None] | None = None
# The present stops, by number. A thread can be in one stop only.
_stops: dict[int, Stop] = {}
_counter = 0


class Stop:
    """One thread in pdb, from where it stopped until it continues."""

    def __init__(self, kind: str, why: str) -> None:
        global _counter
        _counter += 1
        self.number = _counter
        self.kind = kind  # "breakpoint", "post-mortem", "pause"
        self.why = why
        self.thread = threads.get_ident()
        self.since = time.time()
        self.frame: FrameType | None = None  # pdb's current one; None while the thread runs
        self.stack: list[FrameType] = []  # innermost first; empty while the thread runs
        self.prompt = ""
        self.output = ""  # of the last command, for clients that connect later
        self._written: list[str] = []
        self._size = 0
        self._line = ""
        self._ended = False
        self._timeout = _stop_timeout()
        self.timed_out = False
        # Gates: locks that one thread opens (releases) and another passes (acquires).
        self._command_is_here = _closed_gate()
        self._command_is_wanted = _closed_gate()
        self._one_at_a_time = threads.new_lock()

    # --- in the stopped thread: the file that pdb reads and writes ---------------------

    def write(self, text: str) -> int:
        if self._size < LONGEST_OUTPUT:
            self._written.append(text)
            self._size += len(text)
        return len(text)

    def flush(self) -> None:
        pass

    def readline(self) -> str:
        """pdb wants a command. What it has written since the last one is the last one's output."""
        self._publish()
        if self.timed_out:
            return "continue\n"
        self._command_is_wanted.release()
        announcing.renew()
        while not self._command_is_here.acquire(timeout=self._timeout):
            # A client that is about to send a command has closed this gate: wait for its command.
            if self._command_is_wanted.acquire(blocking=False):
                announcing.retract()
                self.timed_out = True
                self._report_timeout()
                return "continue\n"
        return self._line

    def _report_timeout(self) -> None:
        sentence = f"continues: no command for {self._timeout:g} s"
        try:  # wait for the message, since the program may exit right after
            threads.within(1.0, messages.write_with_name, sentence)
        except threads.Late:  # stderr is a full pipe
            pass

    def _publish(self) -> None:
        output = "".join(self._written)
        if self._size >= LONGEST_OUTPUT:
            output = f"{output[:LONGEST_OUTPUT]}\n... (cut)\n"
        self._written.clear()
        self._size = 0
        self.output = output.removesuffix(self.prompt)

    def end(self) -> None:
        """The thread continues; its next stop is another one."""
        self._publish()
        self.frame = None
        self.stack = []
        self._ended = True
        _stops.pop(self.number, None)
        self._command_is_wanted.release()
        announcing.changed()  # other threads may still be stopped

    # --- in the thread of a client's connection ----------------------------------------

    def command(self, line: str | None, seconds: float) -> dict[str, Any]:
        """Have pdb execute a line, and report when it wants the next one or the time is up.

        None: no new line; wait for the end of the one that is being executed.
        """
        deadline = time.monotonic() + seconds
        if not self._one_at_a_time.acquire(timeout=seconds):
            return {**self.report("running"), "busy": True}
        try:
            if not self._wait(deadline):
                return self.report("running")
            if line is not None and not self._ended:
                self._line = line
                announcing.retract()
                self._command_is_here.release()
                if not self._wait(deadline):
                    return self.report("running")
            self._command_is_wanted.release()  # open again, for the next command
            return self.report()
        finally:
            self._one_at_a_time.release()
            announcing.renew()

    def _wait(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        return bool(self._command_is_wanted.acquire(timeout=left))

    def report(self, state: str = "") -> dict[str, Any]:
        """What clients get about this stop."""
        if not state:
            waits = self._command_is_wanted.locked() is False
            state = "ended" if self._ended else "stopped" if waits else "running"
        frame = self.frame
        return {
            "stop": self.number,
            "state": state,
            "kind": self.kind,
            "why": self.why,
            "thread": stacks.thread_name(self.thread),
            "main": self.thread == workers.program_thread(),
            "since": self.since,
            "where": stacks.line_of(frame) if frame is not None else stacks.place(self.thread),
            "prompt": self.prompt,
            "output": self.output,
        }


def find(number: int | None = None, names: list[str] | None = None) -> Stop:
    """The stop with this number. Without a number: the stop of the main thread (or of the worker
    thread that does the program's work), else the oldest; of threads with these `names` alone,
    where there are any (globs: trainer, Thread-*)."""
    if number is None:
        main = workers.program_thread()
        stops = [stop for stop in _stops.values() if not names or _is_named(stop, names)]
        ordered = sorted(stops, key=lambda stop: (stop.thread != main, stop.number))
        if ordered:
            return ordered[0]
        raise LookupError("this rank is not stopped")
    if number in _stops:
        return _stops[number]
    raise LookupError(f"stop {number} has ended")


def _is_named(stop: Stop, names: list[str]) -> bool:
    from fnmatch import fnmatchcase

    thread = stacks.thread_name(stop.thread)
    return any(fnmatchcase(thread, name) for name in names)


def wait_for_one(seconds: float) -> None:
    """Until a thread of this process is stopped, or for this many seconds."""
    deadline = time.monotonic() + seconds
    while not _stops and time.monotonic() < deadline:
        threads.pause(POLL_SECONDS)


def of_thread(ident: int) -> Stop | None:
    return next((stop for stop in _stops.values() if stop.thread == ident), None)


def everyone() -> list[Stop]:
    living = threads.living()
    for stop in list(_stops.values()):
        if stop.thread not in living:  # its thread ended while it was being stepped through
            stop.end()
    return sorted(_stops.values(), key=lambda stop: stop.number)


def begin(kind: str, why: str) -> Stop:
    """A new stop of the calling thread."""
    stop = Stop(kind, why)
    _stops[stop.number] = stop
    announcing.retract(stops=True)
    _print_message(stop)
    if on_stop is not None:
        on_stop()
    return stop


def _after_fork() -> None:
    """The child has none of the parent's other threads, and none of its stops."""
    _stops.clear()


active.after_fork.append(_after_fork)


def _print_message(stop: Stop) -> None:
    """With the command to type. In a thread of its own: where stderr is a full pipe, the stop
    must not block before a client can reach it."""
    words = f"{stop.kind}: {stop.why}" if stop.why else stop.kind
    sentence = f"has stopped ({words}); look at it with: rankdbg shell"
    threads.start(messages.write_with_name, sentence)


def _stop_timeout() -> float:
    """How long a stop waits for a command, in seconds; -1, the default: without limit."""
    given = os.environ.get("RANKDBG_STOP_TIMEOUT")
    if not given:
        return -1
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1
    if seconds >= 0:
        return min(seconds, LONGEST_TIMEOUT)
    if _counter == 1:
        reason = f"invalid RANKDBG_STOP_TIMEOUT={given[:40]!r}: expected seconds, 0 or more"
        threads.start(messages.write, f"{reason}; stops have no timeout")
    return -1


def _closed_gate() -> Any:
    gate = threads.new_lock()
    gate.acquire()
    return gate
