"""A separate program: runs a probe that stops another process, and never leaves it stopped.

    python attach_guard.py PID START SECONDS UNTOUCHED COMMAND...

The probe is ended at its deadline, and also when stdin ends: the node process has the other
end, so kill -9 of the node does not leave a rank stopped. A debugger that is killed leaves its
target stopped, because the SIGSTOP with which it attached is delivered then, or still pending on
a thread that sleeps in the kernel. SIGCONT undoes both.

A debugger that calls functions in its target must not be ended while it does: of 14 kills of
cuda-gdb as it attached, 5 cost the target its life (docs/gpu-notes.md). For its first UNTOUCHED
seconds nothing ends the probe.

Exit status: the probe's, 124 if it was ended, 125 if the target must not be touched.
Imports only what is built in: it starts beside every probe.
"""

from __future__ import annotations

import os
import select
import sys
import time

SIGKILL, SIGTERM, SIGCONT = 9, 15, 18
SIGSTOP_BIT = 1 << 18
LATE, HANDS_OFF = 124, 125
# gdb detaches on SIGTERM.
TERM_SECONDS = 0.5
SETTLE_SECONDS = 1.0
STEP_SECONDS = 0.01


def main(pid: str, start: str, seconds: str, untouched: str, *words: str) -> int:
    if not is_same(pid, start) or is_held(pid):
        return HANDS_OFF
    begun = time.monotonic()
    null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    probe = os.posix_spawnp(words[0], words, os.environ, file_actions=[null], setpgroup=0)
    status = wait(probe, begun + float(seconds), watch_stdin=True)
    if status is None:
        status = wait(probe, begun + float(untouched))
    if status is None:
        end(probe)
        status = LATE
    if status != 0:
        # A thread may hold the SIGSTOP in its hand, and stop when its turn comes: until then
        # nothing shows it. What has detached in order leaves none.
        let_run(pid)
    release(pid, start)
    return status


def wait(probe: int, deadline: float | None, watch_stdin: bool = False) -> int | None:
    """The exit status of the probe; None at the deadline, or when stdin has ended."""
    while True:
        ended, status = os.waitpid(probe, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if deadline is not None and time.monotonic() > deadline:
            return None
        if not watch_stdin:
            time.sleep(STEP_SECONDS)
        elif select.select([0], [], [], STEP_SECONDS)[0] and not os.read(0, 1):
            return None


def end(probe: int) -> None:
    os.killpg(probe, SIGTERM)
    if wait(probe, time.monotonic() + TERM_SECONDS) is None:
        os.killpg(probe, SIGKILL)
        # One that hangs in the kernel ends with what it waits for. We are there then, whoever
        # has given up waiting for us.
        wait(probe, None)


def let_run(pid: str) -> None:
    try:
        os.kill(int(pid), SIGCONT)
    except OSError:  # it is gone, or another user's
        pass


def release(pid: str, start: str) -> None:
    """Until it is seen to run, twice: what stops it may take effect a moment later."""
    deadline = time.monotonic() + SETTLE_SECONDS
    seen_running = 0
    while seen_running < 2 and is_same(pid, start) and time.monotonic() < deadline:
        if is_held(pid):
            seen_running = 0
            let_run(pid)
        else:
            seen_running += 1
        time.sleep(STEP_SECONDS / 5)


def is_same(pid: str, start: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[19] == start.encode() and fields[0] not in (b"Z", b"X")


def is_held(pid: str) -> bool:
    """Whether a thread of it is stopped, or about to be."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return any(is_thread_held(pid, thread) for thread in threads)


def is_thread_held(pid: str, thread: str) -> bool:
    try:
        with open(f"/proc/{pid}/task/{thread}/status", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    fields = dict(line.split(b":\t", 1) for line in lines if b":\t" in line)
    pending = int(fields.get(b"SigPnd", b"0"), 16) | int(fields.get(b"ShdPnd", b"0"), 16)
    return fields.get(b"State", b"")[:1] in (b"T", b"t") or bool(pending & SIGSTOP_BIT)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
