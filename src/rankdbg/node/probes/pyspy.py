"""Python stacks with py-spy: reads the memory of the process, does not stop it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache

from rankdbg import wire
from rankdbg.errors import WireError
from rankdbg.node import offers
from rankdbg.node.in_memory import runnable
from rankdbg.node.machine import processes
from rankdbg.node.probes import ProbeFailed, failure
from rankdbg.process.user_code import is_agent, is_user_code, shows_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@cache
def executable() -> str | None:
    """py-spy of rankdbg's own environment, or what was sent with it, else the one on PATH or in the
    environment of a rank: sending it takes longer than all the rest."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    if os.path.exists(beside):
        return beside
    sent = _sent()
    found = (sent and runnable(sent)) or _on_path() or next(all_beside_python(), None)
    if found is None:
        offers.need("py-spy")
    return found


def _on_path() -> str | None:
    """As shutil.which does it; that module takes 8 ms to load, in every pod."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    places = [os.path.join(folder, "py-spy") for folder in folders]
    return next((p for p in places if os.path.isfile(p) and os.access(p, os.X_OK)), None)


def all_beside_python() -> Iterator[str]:
    """In the directories of Pythons that this user runs, as in a conda environment of the job."""
    for pid in processes.all_pids():
        try:
            program = os.readlink(f"/proc/{pid}/exe")
        except OSError:  # of another user, or it has ended
            continue
        path = os.path.join(os.path.dirname(program), "py-spy")
        is_there = "python" in os.path.basename(program) and os.access(path, os.X_OK)
        if is_there and processes.owner(pid) == os.geteuid() and _is_trusted(path):
            yield path


def _is_trusted(path: str) -> bool:
    """No other user could have put it there."""
    owned = os.stat(path)
    return owned.st_uid in (0, os.geteuid()) and not owned.st_mode & 0o022


def _sent() -> str | None:
    path = os.path.join(os.environ.get("RANKDBG_LANDED", ""), "bin/py-spy")
    return path if os.path.isabs(path) and os.path.exists(path) else None


def available(pid: int) -> str | None:
    if executable() is None:
        return why_not()
    stat = processes.read_stat(pid)
    if stat is None:
        return f"process {pid} is gone"
    if stat.state in "ZX":
        return processes.explain_state(stat)
    return None


def why_not() -> str:
    """Why there is none that can be run."""
    if sent := _sent():
        return (
            f"py-spy was sent to {os.path.dirname(sent)}, where no program may run (noexec); "
            "mount an emptyDir at /tmp, or install py-spy on the node"
        )
    return "py-spy is not installed (pip install py-spy)"


def probe(pid: int, *, seconds: float, all_threads: bool, with_locals: bool) -> dict[str, Any]:
    """The threads of a process in the same form in which its agent gives them."""
    dumped = dump(pid, seconds, with_locals)
    try:
        threads = _threads(dumped, pid, all_threads, with_locals)
        return {"threads": threads, "gil": gil_holder(dumped, pid)}
    except (KeyError, TypeError, IndexError):
        raise ProbeFailed("invalid output of py-spy") from None


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
                # As a message of ours: the modules of json take 2 ms to load, in every pod.
                dumped: list[dict[str, Any]] = wire.decode(f'{{"": {output}}}'.encode())[""]
                return dumped
            except WireError:
                raise ProbeFailed("invalid output of py-spy") from None
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


# torch's function around each collective, as it was called.
_CALLS_COLLECTIVE = "wrapper", "/torch/distributed/c10d_logger.py"
_A_GROUP = "ProcessGroup at 0x"


def locals_of(frame: dict[str, Any]) -> dict[str, str]:
    function, file = _CALLS_COLLECTIVE
    if frame["name"].endswith(function) and frame["filename"].endswith(file):
        given = any(_A_GROUP in str(entry["repr"]) for entry in frame["locals"] or ())
        return {"group": "given" if given else "default"}
    if not shows_variables(frame["name"], frame["filename"]):
        return {}
    return {entry["name"]: str(entry["repr"]) for entry in frame["locals"] or ()}
