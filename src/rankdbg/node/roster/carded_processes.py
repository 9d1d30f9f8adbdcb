"""Processes with an agent, by the cards that agents write."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rankdbg.node.machine import processes
from rankdbg.node.roster import containers
from rankdbg.node.roster.card_files import read_cards
from rankdbg.node.roster.found_processes import FoundProcesses, Process
from rankdbg.node.roster.labels import sound_labels
from rankdbg.node.roster.users import why_not_asked
from rankdbg.process import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def add_carded(directory: str, found: FoundProcesses) -> bool:
    """The processes that have a card in a directory. False if no other cards may be used: if other
    users can write there, they could redirect questions to their own processes."""
    if containers.is_contained(directory):
        _add_contained(directory, found)
        return False
    try:
        cards = read_cards(directory)
    except (OSError, rendezvous.DirectoryRefused) as refusal:
        if os.path.exists(directory):
            found.notes.append(f"agents cannot be found: {refusal}")
        return False
    namespace = rendezvous.pid_namespace()
    unreadable = 0
    for name, card in cards.items():
        path = os.path.join(directory, name)
        if card is None:
            unreadable += os.path.lexists(path)  # or its process has just ended
        elif card["pid_namespace"] == namespace and card["pid"] not in found.carded:
            process = from_card(card, path)
            found.processes.append(process)
            if process.alive:
                found.carded.add(process.pid)
    if unreadable:
        found.notes.append(f"{unreadable} files in {directory} are not valid agent cards")
    return True


def _add_contained(directory: str, found: FoundProcesses) -> None:
    """The one process whose agents' directory this is, in a container, and the dead ones of its job
    there."""
    try:
        contained = containers.find_card(directory)
        dead = _dead_beside(directory, contained[0], found) if contained else []
    except OSError:
        return
    except rendezvous.DirectoryRefused as refusal:
        found.notes.append(f"agents cannot be found: {refusal}")
        return
    if contained is not None:
        card, path = contained
        process = from_card(card, path)
        process.ppid_inside = card["ppid_inside"]
        found.processes += [process, *dead]
        found.carded.add(process.pid)
        key = card["pid_namespace"], processes.pid_inside(process.pid), process.start
        found.contained[key] = process.pid


def _dead_beside(directory: str, living: dict[str, Any], found: FoundProcesses) -> list[Process]:
    """Looked for once in each container. One that was never seen here has the pid that it had
    inside."""
    status = os.stat(directory)
    if (status.st_dev, status.st_ino) in found.containers:
        return []
    found.containers.add((status.st_dev, status.st_ino))
    dead = []
    for card, path in containers.find_dead(directory, living["labels"].get("job")):
        key = card["pid_namespace"], card["pid"], card["start"]
        dead.append(from_card({**card, "pid": found.contained.get(key, card["pid"])}, path))
    return dead


def just_started(pid: int, directories: Iterable[str]) -> Process | None:
    """A process whose card was written after the directory was listed."""
    name = f"{pid}.json"
    for directory in directories:
        try:
            for card in read_cards(directory, [name]).values():
                if card is not None and card["pid_namespace"] == rendezvous.pid_namespace():
                    return from_card(card, os.path.join(directory, name))
        except (OSError, rendezvous.DirectoryRefused):
            continue
    return None


def from_card(card: dict[str, Any], path: str) -> Process:
    socket = path.removesuffix(".json") + ".sock"
    alive = processes.is_alive(card["pid"], card["start"])
    why_not = why_not_asked(card["pid"]) if alive else ""
    return Process(
        pid=card["pid"],
        start=card["start"],
        ppid=card["ppid"],
        alive=alive,
        labels=sound_labels(card["labels"]),
        command=[str(word) for word in card["command"]],
        python=card["python"],
        socket="" if why_not else socket,
        no_agent_because=why_not,
        files=(path, socket),
        outputs=_sound_outputs(card.get("outputs")),
    )


def _sound_outputs(said: object) -> dict[str, str]:
    """Older agents do not tell them."""
    if not isinstance(said, dict):
        return {}
    names = ((name, said.get(name)) for name in ("stdout", "stderr"))
    return {name: path for name, path in names if isinstance(path, str) and path.startswith("/")}
