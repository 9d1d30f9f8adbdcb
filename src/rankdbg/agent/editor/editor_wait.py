"""`rankdbg run --wait-for-editor`: a rank waits before the first line of its program until an editor
has set its breakpoints.

It waits in the audit event that Python raises just before it runs the program: everything is set
up by then, and no line of the program has run. Launchers do not wait, and neither do processes
that a rank starts.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import active, messages, threads
from rankdbg.process import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Seconds (0: no limit). A process without a rank number adds a word for its children: of those,
# only processes with a rank number wait.
VARIABLE = "RANKDBG_WAIT_FOR_EDITOR"
_NUMBERED_ONLY = "numbered"
_EVENTS = ("cpython.run_file", "cpython.run_module", "cpython.run_command", "cpython.run_stdin")
# The debugger reaches the main thread by a pending call, which runs between two waits.
_PORTION = 0.1

_waiting = False
_released: Any = None


def begin() -> None:
    """Called at the agent's start."""
    seconds, _, numbered_only = os.environ.get(VARIABLE, "").partition(" ")
    labels = identity.from_environment(os.environ)
    if not _is_meant("rank" in labels, bool(numbered_only)):
        return
    if "rank" in labels:
        del os.environ[VARIABLE]
    else:
        os.environ[VARIABLE] = f"{seconds} {_NUMBERED_ONLY}"
    active.paused_by.append(_paused)
    limit = _seconds(seconds)
    sys.addaudithook({_ProgramStarts(e, limit, labels): None for e in _EVENTS}.get)  # type: ignore[arg-type]


def _paused() -> str:
    return identity.WAITS_FOR_EDITOR if _waiting else ""


def _is_meant(has_number: bool, numbered_only: bool) -> bool:
    """Not `python -c`: that is a helper of a shell script, of multiprocessing or of the program."""
    _, form, _ = identity.invocation(sys.orig_argv)
    if form == "code" or identity.known_kind(sys.orig_argv):
        return False
    return has_number or not numbered_only


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


class _ProgramStarts(str):
    """A key in a dictionary whose get() is the audit hook: see uncaught.py."""

    limit: float
    labels: dict[str, Any]
    __hash__ = str.__hash__

    def __new__(cls, event: str, limit: float, labels: dict[str, Any]) -> _ProgramStarts:
        made = str.__new__(cls, event)
        made.limit, made.labels = limit, labels
        return made

    def __eq__(self, event: object) -> bool:
        if str.__eq__(self, event) and _released is None:
            _wait(self.limit, self.labels)
        return False


def _wait(limit: float, labels: dict[str, Any]) -> None:
    global _waiting, _released
    number = labels.get("rank")
    who = f"process {os.getpid()}" if number is None else f"rank {number}"
    job = os.environ.get("RANKDBG_JOB", "")
    of_job = f" --job {job}" if job else ""
    within = f" for up to {limit:g} s" if limit else ""
    messages.write(
        f"{who} waits{within} for an editor before its first line: rankdbg vscode{of_job}, "
        f"then F5 (other editors: rankdbg dap{of_job})"
    )
    _released = threads.new_lock()
    _released.acquire()
    _waiting = True
    try:
        left = limit or float("inf")
        while not _released.acquire(True, min(_PORTION, left)):
            left -= _PORTION
            if left <= 0:
                messages.write(f"{who} continues: no editor attached within {limit:g} s")
                break
    finally:
        _waiting = False


def release() -> bool:
    """An editor has set its breakpoints, or does not want this rank. Returns whether this process
    was waiting."""
    was_waiting = _waiting
    if was_waiting and _released.locked():
        _released.release()
    return was_waiting
