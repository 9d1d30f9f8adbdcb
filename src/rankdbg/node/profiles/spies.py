"""Runs py-spy on a process for some seconds, with many samples per second.

It reads the memory of a running process (--nonblocking), so it costs that process almost nothing
and cannot leave it stopped. C frames require stopping it at each sample; this follows the rules
of attaching.py.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from typing import Any

from rankdbg.node.machine import processes
from rankdbg.node.probes import attaching, failure, pyspy
from rankdbg.node.profiles.folded_stacks import fold

# To read the symbols of an interpreter and its libraries, before the first sample.
STARTING_SECONDS = 10.0
# To write down what it has seen.
ENDING_SECONDS = 5.0
# For how long --native stops a process at each sample, in which py-spy attaches to each of its
# threads (measured). The first one takes 0.5 to 3 s where torch's symbols have to be read.
NATIVE_SECONDS, NATIVE_SECONDS_A_THREAD = 0.0005, 0.00015
_LOOK_EVERY = 0.01


class Spy:
    def __init__(self, pid: int, start: int, seconds: float, rate: int, native: bool) -> None:
        self._pid, self._start = pid, start
        # Files in memory: they need no reader, and a full disk does not matter.
        self._stacks = os.memfd_create("stacks")
        self._said = os.memfd_create("said")
        self._guard_stdin = -1
        self._native = native
        self._rate = rate
        self.reason = self._unfit()
        self._child = None if self.reason else self._begin(seconds, rate)

    def _unfit(self) -> str:
        reason = pyspy.available(self._pid)
        if reason is None and self._native:
            reason = attaching.refusal(self._pid)
        if reason is None and not processes.is_alive(self._pid, self._start):
            reason = f"process {self._pid} is gone"
        stat = processes.read_stat(self._pid)
        if reason is None and stat is not None and stat.state in "Tt":
            reason = processes.explain_state(stat)  # there is no time for it to spend
        return reason or ""

    def _begin(self, seconds: float, rate: int) -> subprocess.Popen[bytes]:
        words = [str(pyspy.executable()), "record", "--pid", str(self._pid)]
        words += ["--format", "raw", "--output", f"/dev/fd/{self._stacks}"]
        # It ends by itself, even if this process has ended.
        words += ["--duration", str(math.ceil(seconds)), "--rate", str(rate)]
        words += ["--threads", "--idle", "--full-filenames"]
        words.append("--native" if self._native else "--nonblocking")
        stdin = subprocess.DEVNULL
        if self._native:
            longest = f"{seconds + STARTING_SECONDS + ENDING_SECONDS:.3f}"
            guarded = [str(self._pid), str(self._start), longest, "0"]
            words = [*attaching.GUARD, *guarded, *words]
            stdin, self._guard_stdin = os.pipe()
        try:
            return subprocess.Popen(
                words,
                stdin=stdin,
                stdout=self._said,
                stderr=self._said,
                env={**os.environ, "RUST_BACKTRACE": "0", "RANKDBG": "0"},
                pass_fds=[self._stacks],
                start_new_session=True,  # a ^C is for us, who end it in order
            )
        finally:
            if self._native:
                os.close(stdin)

    def wait_until_begun(self, deadline: float) -> str:
        """Why sampling has not started; empty if it has."""
        while not self.reason and self._child is not None:
            ended = self._child.poll() is not None  # first: it may do all of it meanwhile
            if b"Sampling process" in _content(self._said):
                break
            if ended:
                self.reason = str(failure("py-spy", self._complaint(), self._pid))
            elif time.monotonic() > deadline:
                self.reason = "py-spy did not start in time"
                self._kill()
            else:
                time.sleep(_LOOK_EVERY)
        return self.reason

    def end(self) -> dict[str, Any] | str:
        """What it has seen until it was interrupted, or its time was over, as a document; or
        why it has seen nothing."""
        if self.reason or self._child is None:
            return self.reason
        gone = not processes.is_alive(self._pid, self._start)
        try:
            self._child.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
        document = fold(_content(self._stacks).decode(errors="replace"), self._pid, self._rate)
        if document["stacks"]:
            return document
        if gone:
            return f"process {self._pid} is gone"
        return str(failure("py-spy", self._complaint() or "it took no sample", self._pid))

    def interrupt(self) -> None:
        """It then writes down what it has seen."""
        if self._child is None or self._child.poll() is not None:
            return
        pid = self._child.pid
        if self._native:  # it is the child of its guard
            try:
                with open(f"/proc/{pid}/task/{pid}/children") as file:
                    pid = int(file.read().split()[0])
            except (OSError, IndexError):
                return
        try:
            os.kill(pid, signal.SIGINT)
        except ProcessLookupError:
            pass

    def _kill(self) -> None:
        assert self._child is not None
        if self._native:
            os.close(self._guard_stdin)  # the guard ends it, and sees to its target
            self._guard_stdin = -1
        else:
            self._child.kill()

    def close(self) -> None:
        if self._child is not None and self._child.poll() is None:
            self._kill()
        for file in (self._stacks, self._said, self._guard_stdin):
            if file >= 0:
                os.close(file)

    def _complaint(self) -> str:
        lines = _content(self._said).decode(errors="replace").splitlines()
        # Its reasons are numbered; the first lines say what it was about to do.
        return "\n".join(line for line in lines if line and not line.startswith("py-spy>"))


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def affordable_rate(pid: int, rate: int, most_stopped: float) -> int:
    """So many samples a second, or fewer if --native would else stop the process for more than
    this share of the time."""
    each = NATIVE_SECONDS + NATIVE_SECONDS_A_THREAD * len(processes.threads(pid))
    return max(1, min(rate, int(most_stopped / each)))
