"""Saves an uncaught exception: a part of a snapshot, written by the rank itself.

DIR/snapshot.json                      the head, by the first rank that writes
DIR/nodes/HOST-PID-START/stacks.json   {"question": {...}, "answer": {...}}, as a node
DIR/nodes/HOST-PID-START/stops.json    would have answered
DIR/nodes/HOST-PID-START/roster.json   last: readers skip a process without it

Each process writes its own folder, so that ranks on many machines can share a directory, and it
can be opened at any time. A second exception of the same process (of another thread) is added to
its folder.
"""

from __future__ import annotations

import os
import time

from rankdbg import wire
from rankdbg._version import __version__
from rankdbg.agent import card, describe, stacks, threads
from rankdbg.files import private_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

SNAPSHOT = 1
# For a repr() of the program that does not return. Longer than for a question: no client waits.
LOCALS_SECONDS = 10.0

# A worker of a pool continues after an exception, and may raise one in each of its tasks.
MOST = 20


class _Record:
    """What has been saved of a process. The child of a fork has its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threads.new_lock()
        self.stops: list[dict[str, Any]] = []
        self.failed: dict[str, dict[str, Any]] = {}  # threads at their exceptions, by name


_record = _Record()


def save(directory: str, error: BaseException, traceback: TracebackType, ends: bool) -> None:
    """`ends`: the process ends with this exception. Raises OSError."""
    global _record
    if _record.pid != os.getpid():
        _record = _Record()
    with _record.lock:
        if ends or len(_record.stops) < MOST:
            _save(_record, directory, error, traceback, ends)


def _save(
    record: _Record, directory: str, error: BaseException, traceback: TracebackType, ends: bool
) -> None:
    from rankdbg.process import masking  # imports re, which the program may not need

    why = " ".join(masking.mask_text(describe.exception_text(error)).split())
    with stacks.Raised(traceback):
        seen = _all_stacks()
        where = stacks.where()
        stop = {"stop": len(record.stops) + 1, **_stop(why)}
    record.stops.append(stop)
    for thread in seen:
        for values in thread.get("locals", ()):
            values.update(masking.mask_environment(values))
        if thread.pop("id") == threads.get_ident():
            record.failed[thread["name"]] = thread
    others = [thread for thread in seen if thread["name"] not in record.failed]
    me = card.make()
    me["command"] = masking.mask_command(me["command"])
    state = {
        "state": "gone" if ends else "running",
        "detail": why if stop["main"] else f"{why} (thread {stop['thread']})",
        "where": where,
    }
    answers = _answers(me, state, [*record.failed.values(), *others], record.stops)
    _write(directory, me, answers)


def _stop(why: str) -> dict[str, Any]:
    """As the agent would report it if the thread were held."""
    ident = threads.get_ident()
    return {
        "state": "stopped",
        "kind": "post-mortem",
        "why": why,
        "thread": stacks.thread_name(ident),
        "main": ident == threads.main_thread(),
        "since": time.time(),
        "where": stacks.place(ident),
        "prompt": "",
        "output": "",
    }


def _answers(
    me: dict[str, Any], state: dict[str, Any], all_threads: list[Any], stops: list[Any]
) -> dict[str, tuple[Any, Any]]:
    """What a node would have answered about this process, by question."""
    process = [me["pid"], me["start"]]
    sampled = {"process": process, "samples": [0], "source": "agent", "why": ""}
    entry = {
        **{name: me[name] for name in ("pid", "start", "ppid", "labels", "python", "command")},
        **_rank(me["labels"]),
        **state,
        "job": me["labels"]["job"],
        "age": _age(me["start"]),
        "agent": False,
    }
    return {
        "stacks": (
            {"ask": "stacks", "threads": "all", "locals": True},
            {"distinct": [all_threads], "processes": [sampled], "silent": []},
        ),
        "stops": (
            {"ask": "stops"},
            {"answers": [{"process": process, "value": {"stops": stops}}], "silent": []},
        ),
        "roster": (
            {"ask": "roster"},
            {"host": me["host"], "processes": [entry], "notes": [], "other_users": []},
        ),
    }


def _all_stacks() -> list[dict[str, Any]]:
    try:
        seen = threads.within(LOCALS_SECONDS, stacks.collect, True, True)
    except threads.Late:
        seen = stacks.collect(True, with_locals=False)
    return list(seen["threads"])


def _rank(labels: dict[str, Any]) -> dict[str, Any]:
    """As far as the process itself knows: a child of multiprocessing has its parent's number in
    its environment, but is not that rank."""
    own = labels.get("source") in ("init", "torch")
    if "multiprocessing" in labels and "rank" in labels and not own:
        return {"kind": "child", "number": None}
    return {"kind": "rank", "number": labels.get("rank")}


def _age(start: int) -> float:
    with open("/proc/uptime", "rb") as file:
        up = float(file.read().split()[0])
    return max(0.0, up - start / os.sysconf("SC_CLK_TCK"))


# --- files ----------------------------------------------------------------------------------


def _write(directory: str, me: dict[str, Any], asked: dict[str, tuple[Any, Any]]) -> None:
    name = f"{_safe(me['host'])}-{me['pid']}-{me['start']}"
    folder = os.path.join(directory, "nodes", name)
    private_files.make_directory(folder)
    for kind, (question, answer) in asked.items():
        _write_file(os.path.join(folder, f"{kind}.json"), {"question": question, "answer": answer})
    head = os.path.join(directory, "snapshot.json")
    if not os.path.exists(head):  # two processes at the same time write the same
        saved = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        content = {"snapshot": SNAPSHOT, "version": __version__, "saved": saved}
        _write_file(head, {**content, "target": "uncaught exceptions", "nodes": {}})


def _write_file(path: str, content: dict[str, Any]) -> None:
    """Under another name first: a reader never sees half a file."""
    partial = f"{path}.{os.uname().nodename}-{os.getpid()}.new"
    try:
        with private_files.open_file(partial, "wb") as file:
            file.write(wire.encode(content))
        os.replace(partial, path)
    except BaseException:
        try:
            os.unlink(partial)
        except OSError:
            pass
        raise


def _safe(host: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in host)[:100]
