"""Tests what works on this node, for `rankdbg check`."""

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

from rankdbg._version import __version__
from rankdbg.node import inquiry, offers, relay
from rankdbg.node.probes import ProbeFailed, attaching
from rankdbg.node.roster.found_processes import Process
from rankdbg.process import rendezvous
from rankdbg.text.amounts import in_bytes
from rankdbg.wire.questions import Ping

# A check may take time: a slow agent works, too.
AGENT_SECONDS = 5.0


def check(ranks: Sequence[Process], deadline: float, agent_seconds: float) -> dict[str, Any]:
    """Each finding: {"works": true, false or null for what cannot be tried, "text": ...}."""
    return {
        "rankdbg": _finding(True, _about_us()),
        "agents": _agents(ranks, deadline, agent_seconds),
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


def _agents(ranks: Sequence[Process], deadline: float, seconds: float) -> dict[str, Any]:
    if not ranks:
        return _finding(None, "no ranks on this node; start a job with: rankdbg run -- COMMAND")
    asked = {p.key: p for p in ranks if p.socket and inquiry.can_answer(p)}
    answers = inquiry.ask(asked, dict.fromkeys(asked, Ping().message()), deadline, seconds)
    good = sum(not isinstance(answer, relay.NoAnswer) for answer in answers.values())
    if good == len(ranks):
        return _finding(True, "all ranks have one that responds")
    without = sorted({p.no_agent_because for p in ranks if not p.socket})
    why = f" ({without[0]})" if without else ""
    return _finding(False, f"{good} of {len(ranks)} ranks have one that responds{why}")


def _directory() -> dict[str, Any]:
    directory = rendezvous.directory()
    if not os.path.lexists(directory):
        return _finding(True, "will be created when an agent starts")
    try:
        rendezvous.check(directory)
    except (OSError, rendezvous.DirectoryRefused) as refusal:
        return _finding(False, str(refusal))
    return _finding(True, "is private to this user")


def _pyspy(ranks: Sequence[Process], deadline: float) -> dict[str, Any]:
    """Tried with a rank, or if there is none with a child process (which a parent may trace even
    if other processes may not: so the finding says so)."""
    from rankdbg.node.probes import pyspy

    if pyspy.executable() is None:
        return _finding(False, pyspy.why_not())
    living = [process for process in ranks if process.alive]
    if living:
        outcome = inquiry.probe({living[0].key: living[0]}, deadline, False, False)
        return _seen(outcome[living[0].key], "tried with a rank")
    with _child() as pid:
        stranger = Process(pid, 0, 0, True, {}, [])
        outcome = inquiry.probe({stranger.key: stranger}, deadline, False, False)
    return _seen(outcome[stranger.key], "tried with a test process; no rank to try")


def _debuggers(deadline: float) -> dict[str, Any]:
    """Tools that stop a process are tried with a child process: ranks are not stopped without
    being asked. Without these tools everything works except native frames."""
    from rankdbg.node.probes import cudagdb, gdb, pystack

    found: dict[str, Any] = {}
    with _child() as pid:
        for name, probe in (("pystack", pystack), ("gdb", gdb)):
            try:
                there = probe.executable() is not None
            except offers.MissingTool:
                found[name] = _finding(None, "not installed; rankdbg sends its own when needed")
                continue
            if not there:
                found[name] = _finding(None, "not installed")
                continue
            seconds = (deadline - time.monotonic() - attaching.GUARD_SECONDS) / 2
            try:
                probe.probe(pid, seconds=max(0.5, seconds), all_threads=False, with_locals=False)
                found[name] = _finding(True, "works (tried with a test process)")
            except ProbeFailed as failure:
                found[name] = _finding(False, str(failure))
    installed = cudagdb.executable() is not None
    text = "installed" if installed else "not installed"
    found["cuda-gdb"] = _finding(True if installed else None, text)
    return found


@contextmanager
def _child() -> Iterator[int]:
    """A Python process that waits."""
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
    enough = free > 64 << 20
    return _finding(
        enough, "has enough space" if enough else f"{place} has only {in_bytes(free)} free"
    )
