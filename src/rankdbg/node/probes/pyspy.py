"""Python stacks with py-spy: reads the memory of the process, does not stop it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rankdbg.node import processes
from rankdbg.node.probes import ProbeFailed, failure
from rankdbg.user_code import is_agent, is_user_code


@cache
def executable() -> str | None:
    """py-spy of rankdbg's own environment, or what was sent with it, else the one on PATH."""
    landed = os.environ.get("RANKDBG_LANDED")
    beside = Path(sys.executable).parent / "py-spy"
    sent = Path(landed) / "bin/py-spy" if landed else beside
    return next((str(p) for p in (beside, sent) if p.exists()), None) or shutil.which("py-spy")


def available(pid: int) -> str | None:
    if executable() is None:
        return "py-spy is not installed (pip install py-spy)"
    stat = processes.read_stat(pid)
    if stat is None:
        return f"process {pid} is gone"
    if stat.state in "ZX":
        return processes.explain_state(stat)
    return None


def probe(pid: int, *, seconds: float, all_threads: bool, with_locals: bool) -> dict[str, Any]:
    """The threads of a process in the same form in which its agent gives them."""
    dumped = dump(pid, seconds, with_locals)
    try:
        threads = _threads(dumped, pid, all_threads, with_locals)
        return {"threads": threads, "gil": gil_holder(dumped, pid)}
    except (KeyError, TypeError, IndexError):
        raise ProbeFailed("py-spy answered what cannot be read") from None


def dump(pid: int, seconds: float, with_locals: bool) -> list[dict[str, Any]]:
    """What py-spy says, as it says it."""
    # --nonblocking: never attaches, so a process in state D cannot hang it, and one
    # that it is killed over is not left stopped.
    words = [str(executable()), "dump", "--json", "--nonblocking", "--pid", str(pid)]
    if with_locals:
        words.append("--locals")
    deadline = time.monotonic() + seconds
    for attempt in (1, 2, 3):
        status, output, complaint = _run(words, deadline - time.monotonic())
        if status == 0:
            try:
                dumped: list[dict[str, Any]] = json.loads(output)
                return dumped
            except ValueError:
                raise ProbeFailed("py-spy answered what cannot be read") from None
        # It reads a process that goes on running, and now and then catches it in between.
        if attempt == 3 or time.monotonic() > deadline or not processes.read_stat(pid):
            break
    raise failure("py-spy", complaint, pid)


def _run(words: list[str], seconds: float) -> tuple[int, str, str]:
    environment = {**os.environ, "RUST_BACKTRACE": "0"}
    child = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
    )
    try:
        output, complaint = child.communicate(timeout=max(0.1, seconds))
        return child.returncode, output, complaint
    except subprocess.TimeoutExpired:
        child.kill()
        try:
            child.communicate(timeout=0.5)
        except subprocess.TimeoutExpired:
            pass  # it hangs in the kernel with its target; both will end together
        raise ProbeFailed(f"py-spy did not end within {seconds:.1f} s") from None


def _threads(
    dumped: list[dict[str, Any]], pid: int, all_threads: bool, with_locals: bool
) -> list[dict[str, Any]]:
    found = []
    main_thread = find_main(dumped, pid)
    for thread in dumped:
        main = thread is main_thread
        frames = [[f["name"], f["filename"], f["line"]] for f in thread["frames"]]
        if not frames or not (all_threads or main) or _is_agent(frames):
            continue
        shown: dict[str, Any] = {
            "name": name(thread, pid),
            "main": main,
            "frames": frames,
        }
        if with_locals:
            shown["locals"] = [locals_of(frame) for frame in thread["frames"]]
        found.append(shown)
    found.sort(key=lambda thread: (not thread["main"], thread["name"]))
    return found


def name(thread: dict[str, Any], pid: int) -> str:
    return thread["thread_name"] or ("MainThread" if _is_main(thread, pid) else "thread")


def gil_holder(dumped: Sequence[dict[str, Any]], pid: int) -> str:
    """The name of the thread that holds the GIL; `` if none does."""
    return next((name(thread, pid) for thread in dumped if thread.get("owns_gil")), "")


def find_main(dumped: Sequence[dict[str, Any]], pid: int) -> dict[str, Any] | None:
    """The thread that does the program's work: the main one, but where Monarch keeps that to
    itself and each actor has its own, the oldest that executes the user's code."""
    main = next((thread for thread in dumped if _is_main(thread, pid)), None)
    users = [t for t in dumped if any(is_user_code(f["filename"]) for f in t["frames"])]
    if main in users:
        return main
    actors = [t for t in users if str(t["thread_name"]).startswith("monarch-actor-")]
    return min(actors, key=lambda thread: thread.get("os_thread_id") or 0, default=main)


def _is_main(thread: dict[str, Any], pid: int) -> bool:
    return thread["thread_name"] == "MainThread" or thread.get("os_thread_id") == pid


def _is_agent(frames: list[list[Any]]) -> bool:
    return is_agent(frames[-1][1])


def locals_of(frame: dict[str, Any]) -> dict[str, str]:
    if not is_user_code(frame["filename"]):
        return {}
    return {entry["name"]: str(entry["repr"]) for entry in frame["locals"] or ()}
