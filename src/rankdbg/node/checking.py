"""What works on this node, tried and not guessed: for `rankdbg check`."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rankdbg import __version__, rendezvous
from rankdbg.node import attaching, inquiry, relay
from rankdbg.node.discovery import Process
from rankdbg.node.probes import ProbeFailed

# A check has time, and an agent that is slow works.
AGENT_SECONDS = 5.0


def check(ranks: Sequence[Process], deadline: float) -> dict[str, Any]:
    """Each finding: {"works": true, false or null for what cannot be tried, "text": ...}."""
    return {
        "rankdbg": _finding(True, _about_us()),
        "agents": _agents(ranks, deadline),
        "agents' directory": _directory(),
        "py-spy": _pyspy(ranks, deadline),
        **_debuggers(deadline),
        "temporary space": _space(),
    }


def _finding(works: bool | None, text: str) -> dict[str, Any]:
    return {"works": works, "text": text}


def _about_us() -> str:
    landed = os.environ.get("RANKDBG_LANDED")
    came = "sent" if landed and __file__.startswith(landed) else "installed"
    return f"{__version__}, {came}; Python {platform.python_version()} as {_user()}"


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def _agents(ranks: Sequence[Process], deadline: float) -> dict[str, Any]:
    if not ranks:
        return _finding(None, "no ranks here; start them with: rankdbg run -- COMMAND")
    asked = {p.key: p for p in ranks if p.socket and inquiry.can_answer(p)}
    answers = inquiry.ask(asked, {key: {"ask": "ping"} for key in asked}, deadline, AGENT_SECONDS)
    good = sum(not isinstance(answer, relay.NoAnswer) for answer in answers.values())
    if good == len(ranks):
        return _finding(True, "every rank has one, and it answers")
    without = sorted({p.no_agent_because for p in ranks if not p.socket})
    why = f" ({without[0]})" if without else ""
    return _finding(False, f"{good} of {len(ranks)} ranks have one that answers{why}")


def _directory() -> dict[str, Any]:
    directory = rendezvous.directory()
    try:
        rendezvous.check(directory)
    except FileNotFoundError:
        return _finding(True, "will be made when an agent starts")
    except (OSError, rendezvous.Refused) as refusal:
        return _finding(False, str(refusal))
    return _finding(True, "is private to this user")


def _pyspy(ranks: Sequence[Process], deadline: float) -> dict[str, Any]:
    """On a rank, or where there is none on a child (which its parent may look at even where
    others may not: so that is said)."""
    from rankdbg.node.probes import pyspy

    if pyspy.executable() is None:
        return _finding(False, "not installed, and ours does not fit (pip install py-spy)")
    living = [process for process in ranks if process.alive]
    if living:
        outcome = inquiry.probe({living[0].key: living[0]}, deadline, False, False)
        return _seen(outcome[living[0].key], "looked at a rank")
    with _child() as pid:
        stranger = Process(pid, 0, 0, True, {}, [])
        outcome = inquiry.probe({stranger.key: stranger}, deadline, False, False)
    return _seen(outcome[stranger.key], "looked at a child of its own; no rank to try")


def _debuggers(deadline: float) -> dict[str, Any]:
    """What stops a process to look is tried on a child of our own: ranks are not stopped
    unasked. Who has none of them can do all but look at frames of C."""
    from rankdbg.node.probes import cudagdb, gdb, pystack

    found: dict[str, Any] = {}
    with _child() as pid:
        for name, probe in (("pystack", pystack), ("gdb", gdb)):
            if probe.executable() is None:
                found[name] = _finding(None, "not installed")
                continue
            seconds = (deadline - time.monotonic() - attaching.GUARD_SECONDS) / 2
            try:
                probe.probe(pid, seconds=max(0.5, seconds), all_threads=False, with_locals=False)
                found[name] = _finding(True, "works (looked at a child of its own)")
            except ProbeFailed as failure:
                found[name] = _finding(False, str(failure))
    there = cudagdb.executable()
    found["cuda-gdb"] = _finding(True if there else None, "installed" if there else "not installed")
    return found


@contextmanager
def _child() -> Iterator[int]:
    """A Python that waits."""
    words = [sys.executable, "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None and other.stdout is not None
        other.stdout.readline()
        try:
            yield other.pid
        finally:
            other.kill()


def _seen(outcome: Any, how: str) -> dict[str, Any]:
    if isinstance(outcome, dict):
        return _finding(True, f"works ({how})")
    return _finding(False, str(outcome))


def _space() -> dict[str, Any]:
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    return _finding(free > 64 << 20, "has room" if free > 64 << 20 else f"{place} is full")
