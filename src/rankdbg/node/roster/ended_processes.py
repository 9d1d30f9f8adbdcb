"""Processes that have ended: which of them are still told of, and the files that they have left."""

from __future__ import annotations

import os

from rankdbg.node.roster import containers
from rankdbg.node.roster.card_files import read_card
from rankdbg.node.roster.found_processes import Process, runs
from rankdbg.process import ended_cards


def remove_stale(found: list[Process]) -> list[Process]:
    """Remove the files of dead processes; returns the others.

    Dead ranks of a running job are kept: users want to see that they are gone. A launcher knows
    whether the job runs on other nodes.
    """
    running = {process.key for process in found if runs(process)}
    living = {p.job for p in found if p.kind == "rank" and p.key in running}
    remaining = []
    for process in found:
        kept = process.kind == "rank" and (process.job in living or "dead" in process.labels)
        if process.key in running or kept:
            remaining.append(process)
            continue
        _remove_files(process)
    return remaining


def _remove_files(process: Process) -> None:
    """Unless they belong to a new process with the same pid, or are in a container, where a link
    could lead elsewhere. A card that names logs is kept elsewhere."""
    if not process.files or containers.is_contained(process.files[0]):
        return
    path, *others = process.files
    card = read_card(path)
    if card is not None and (card["pid"], card["start"]) == process.key:
        kept = (
            process.kind == "rank" and has_logs(process) and ended_cards.keep(path, process.start)
        )
        for each in others if kept else process.files:
            try:
                os.unlink(each)
            except OSError:
                continue


def has_logs(process: Process) -> bool:
    """Whether a file is there that its stdout or stderr went into, by its card."""
    return any(os.path.isfile(path) for path in process.outputs.values())
