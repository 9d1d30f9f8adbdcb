"""Ctrl-C ends the command like other programs: by the signal, without output.

Python turns SIGINT into an exception wherever it happens to be. In an import that is a traceback;
in a callback or a destructor it is lost, with a warning on stderr. So the signal has its default
action until a verb runs, and again when it has returned.
"""

from __future__ import annotations

# signal.py would import enum, during which Python's handler would still be there.
import _signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sys import UnraisableHookArgs


def end_at_once() -> None:
    """From here on SIGINT ends the process, unless it is ignored (nohup, a background job)."""
    if _signal.getsignal(_signal.SIGINT) not in (_signal.SIG_IGN, None):
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def raise_in_verbs() -> None:
    """From here on it is a KeyboardInterrupt: a verb may need to clean up."""
    if _signal.getsignal(_signal.SIGINT) is _signal.SIG_DFL:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        sys.unraisablehook = _end_if_interrupted


def die() -> None:
    """By the signal, so that a shell's loop ends as well."""
    end_at_once()
    try:
        sys.stdout.flush()
    except Exception:  # closed, full, or without a reader
        pass
    os.kill(os.getpid(), _signal.SIGINT)


def _end_if_interrupted(unraisable: UnraisableHookArgs) -> None:
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        die()
    sys.__unraisablehook__(unraisable)
