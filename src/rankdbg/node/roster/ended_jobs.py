"""Jobs of which no process is left, by the cards that their ranks have left (process/ended_cards.py)."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from rankdbg.node.machine import processes
from rankdbg.node.roster import (
    carded_processes,
    containers,
    ended_processes,
    found_processes,
    job_scope,
)
from rankdbg.node.roster.card_files import read_card
from rankdbg.node.roster.found_processes import Process
from rankdbg.process import rendezvous
from rankdbg.process.ended_cards import FOLDER
from rankdbg.roster.jobs import name_unnamed
from rankdbg.roster.members import Ancestor
from rankdbg.roster.ranks import classify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEPT_SECONDS = 7 * 86400.0
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY
Times = dict[tuple[int, int], tuple[float, float]]  # by key: when its card was written, and kept


def find(directories: Iterable[str], scope: Mapping[str, Any]) -> list[Process]:
    """The ranks of the last run of each, and their launchers, which say how ranks have ended."""
    found: list[Process] = []
    times: Times = {}
    for directory in directories:
        if not containers.is_contained(directory):
            for process, written, kept in _read(directory):
                found.append(process)
                times[process.key] = written, kept
    if scope.get("unnamed_job"):
        job_scope.name_job(found, scope["unnamed_job"])
    name_unnamed(found)
    jobs: dict[str, list[Process]] = defaultdict(list)
    for process in job_scope.in_scope(found, scope):
        jobs[process.job].append(process)
    last = [process for ran in jobs.values() for process in _of_last_run(ran, times)]
    _look_above(last)
    classify(last)
    return [process for process in last if process.kind in ("rank", "launcher")]


def _read(directory: str) -> Iterator[tuple[Process, float, float]]:
    """Each, and when its card was written and kept. Old ones, and those whose logs are gone, are
    removed."""
    try:
        outer = rendezvous.open_checked(directory)
    except (OSError, rendezvous.DirectoryRefused):
        return  # the roster says so
    try:
        folder = os.open(FOLDER, _FLAGS, dir_fd=outer)
    except OSError:
        return  # no process has left a card there
    finally:
        os.close(outer)
    try:
        for name in sorted(os.listdir(folder)):
            with contextlib.suppress(OSError):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                card = read_card(name, folder)
                if card is not None and card["pid_namespace"] != rendezvous.pid_namespace():
                    continue  # of a container with the same directory
                is_old = status.st_ctime < time.time() - KEPT_SECONDS
                process = _process(card, os.path.join(directory, FOLDER, name)) if card else None
                if process is None or is_old or not ended_processes.has_logs(process):
                    os.unlink(name, dir_fd=folder)
                elif not found_processes.runs(process):  # one that exits has just left its card
                    yield process, status.st_mtime, status.st_ctime
    finally:
        os.close(folder)


def _process(card: dict[str, Any], path: str) -> Process:
    process = carded_processes.from_card(card, path)
    process.alive = False  # a zombie too
    return process


def _look_above(ended: Iterable[Process]) -> None:
    """Their parents, as far as these have left cards too."""
    by_pid = {process.pid: process for process in ended}
    for process in by_pid.values():
        above: list[Ancestor] = []
        pid = process.ppid
        while pid in by_pid and len(above) < len(by_pid):
            above.append(Ancestor(pid, ""))
            pid = by_pid[pid].ppid
        process.above = tuple(above)


def _of_last_run(ran: list[Process], times: Times) -> list[Process]:
    """A job may be started again under its name: without processes that another launcher has replaced,
    and without those that had ended before the last one began."""
    ordered = sorted(ran, key=lambda process: times[process.key])
    pids = {process.pid for process in ran}
    launched = {_place(p): p.ppid for p in ordered if p.ppid not in pids}  # the last one counts
    last = [p for p in ordered if p.ppid in pids or launched[_place(p)] == p.ppid]
    newest = last[-1]
    began = time.time() - processes.age(newest.start)
    if began > times[newest.key][0]:  # the machine was started since
        return last
    return [process for process in last if times[process.key][1] >= began]


def _place(process: Process) -> tuple[object, ...]:
    """What a process takes over from the one that it replaces; without a number, nothing."""
    number = process.whole("rank")
    return process.text("role"), process.key if number is None else number
