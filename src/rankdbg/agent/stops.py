"""Stops: threads of this process that stand in a debugger, and who commands them.

A stop is (process, thread, counter). It lives here, in the rank: clients come and go, and
may be killed; the stop stays. A command and its whole output are one question and one
answer, so that what many ranks printed can be gathered and grouped.

    the thread that stopped          a connection's thread
    -----------------------          ----------------------
    Console.readline()  <----------- Stop.command("p x")
      (pdb wants a command)            waits until pdb wants the next one,
    ... pdb works, writes ...          or until its time is up
    Console.readline()  -----------> output
"""

from __future__ import annotations

import os
import sys
import time

from rankdbg.agent import stacks, threads, workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

LONGEST_OUTPUT = 1 << 20
LONGEST_PATIENCE = 1e8  # a lock waits no longer than about 300 years

# Those that stand now, by number. A thread can be in one stop only.
_stops: dict[int, Stop] = {}
_counter = 0


class Stop:
    """One thread in the debugger, from where it stopped until it goes on for good."""

    def __init__(self, kind: str, why: str) -> None:
        global _counter
        _counter += 1
        self.number = _counter
        self.kind = kind  # "breakpoint", "post-mortem", "pause"
        self.why = why
        self.thread = threads.get_ident()
        self.since = time.time()
        self.frame: FrameType | None = None  # where pdb stands; None while the thread runs
        self.stack: list[FrameType] = []  # innermost first, while pdb stands there
        self.prompt = ""
        self.output = ""  # what the last command printed, for those who come later
        self._written: list[str] = []
        self._size = 0
        self._line = ""
        self._ended = False
        self._patience = _patience()
        self.goes_on = False  # nobody has come in all that time
        # Gates: locks that one thread opens (releases) and another passes (acquires).
        self._command_is_here = _closed_gate()
        self._command_is_wanted = _closed_gate()
        self._one_at_a_time = threads.new_lock()

    # --- in the thread that stopped: the file that pdb reads and writes ----------------

    def write(self, text: str) -> int:
        if self._size < LONGEST_OUTPUT:
            self._written.append(text)
            self._size += len(text)
        return len(text)

    def flush(self) -> None:
        pass

    def readline(self) -> str:
        """pdb wants a command: what it has written since the last one is that one's output."""
        self._publish()
        if self.goes_on:
            return "continue\n"
        self._command_is_wanted.release()
        while not self._command_is_here.acquire(timeout=self._patience):
            # Unless a client is just about to command: then it has this gate.
            if self._command_is_wanted.acquire(blocking=False):
                self.goes_on = True
                self._say_that_it_goes_on()
                return "continue\n"
        return self._line

    def _say_that_it_goes_on(self) -> None:
        sentence = f"goes on by itself, after {self._patience:g} s without a command"
        try:  # it may be at its end right after
            threads.within(1.0, _say, sentence)
        except threads.Late:
            pass

    def _publish(self) -> None:
        output = "".join(self._written)
        if self._size >= LONGEST_OUTPUT:
            output = f"{output[:LONGEST_OUTPUT]}\n... (cut)\n"
        self._written.clear()
        self._size = 0
        self.output = output.removesuffix(self.prompt)

    def end(self) -> None:
        """The thread goes on, and will not come back to this stop."""
        self._publish()
        self.frame = None
        self.stack = []
        self._ended = True
        _stops.pop(self.number, None)
        self._command_is_wanted.release()

    # --- in the thread of a client's connection ----------------------------------------

    def command(self, line: str | None, seconds: float) -> dict[str, Any]:
        """Have pdb execute a line, and report when it wants the next one or the time is up.

        None: no line, only wait for the end of the one that is under way.
        """
        deadline = time.monotonic() + seconds
        if not self._one_at_a_time.acquire(timeout=seconds):
            return {**self.report("running"), "busy": True}
        try:
            if not self._wait(deadline):
                return self.report("running")
            if line is not None and not self._ended:
                self._line = line
                self._command_is_here.release()
                if not self._wait(deadline):
                    return self.report("running")
            self._command_is_wanted.release()  # as it was: the next one passes here too
            return self.report()
        finally:
            self._one_at_a_time.release()

    def _wait(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        return bool(self._command_is_wanted.acquire(timeout=left))

    def report(self, state: str = "") -> dict[str, Any]:
        """What a client is told about this stop."""
        if not state:
            waits = self._command_is_wanted.locked() is False
            state = "ended" if self._ended else "stopped" if waits else "running"
        return {
            "stop": self.number,
            "state": state,
            "kind": self.kind,
            "why": self.why,
            "thread": stacks.thread_name(self.thread),
            "main": self.thread == workers.program_thread(),
            "since": self.since,
            "where": stacks.place(self.thread),
            "prompt": self.prompt,
            "output": self.output,
        }


def find(number: int | None = None) -> Stop:
    """The stop with this number, or the one that a client means who names none: that of the
    main thread (or whichever does the work), else the oldest."""
    if number is None:
        main = workers.program_thread()
        ordered = sorted(_stops.values(), key=lambda stop: (stop.thread != main, stop.number))
        if ordered:
            return ordered[0]
        raise LookupError("this rank is not stopped")
    if number in _stops:
        return _stops[number]
    raise LookupError(f"stop {number} has ended")


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
    _announce(stop)
    return stop


def forget_all() -> None:
    """After a fork: the parent's threads, and their stops, are not here."""
    _stops.clear()


def _announce(stop: Stop) -> None:
    """With the command to type. From a thread of its own: stderr may be a pipe that is full,
    and the stop must not hang before anybody can look at it."""
    words = f"{stop.kind}: {stop.why}" if stop.why else stop.kind
    threads.start(_say, f"has stopped ({words}); look at it with: rankdbg shell")


def _say(sentence: str) -> None:
    """One line on stderr."""
    from rankdbg.agent import card

    labels = card.make()["labels"]
    who = f"rank {labels['rank']}" if "rank" in labels else "this process"
    sys.stderr.write(f"rankdbg: {who} {sentence}\n")
    sys.stderr.flush()


def _patience() -> float:
    """How long a stop waits for a command, in seconds; -1: for ever, which is the rule."""
    given = os.environ.get("RANKDBG_STOP_TIMEOUT")
    if not given:
        return -1
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1
    if seconds >= 0:
        return min(seconds, LONGEST_PATIENCE)
    if _counter == 1:
        reason = f"RANKDBG_STOP_TIMEOUT={given[:40]!r} is not a number of seconds of 0 or more"
        threads.start(_say, f"waits for ever at its stops: {reason}")
    return -1


def _closed_gate() -> Any:
    gate = threads.new_lock()
    gate.acquire()
    return gate
