"""Agents of processes in containers on this machine: in other PID or mount namespaces.

The agents' directory of such a process is below its own root (/proc/PID/root), and its card has the
pid that the process has inside. A card counts for that process alone: the kernel's word on its
user, its pid inside and its start must agree with the card. Cards that no process of its container
has, and that name its job, are those of dead ranks. Before anything is sent, the relay
also compares the listening process (rendezvous.may_listen).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from rankdbg.node.machine import processes
from rankdbg.node.roster.card_files import read_card
from rankdbg.process import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NO_LINKS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW


def directory_of(pid: int, environ: Mapping[str, str]) -> str:
    """The agents' directory of a process in other namespaces; empty if they are ours."""
    theirs = processes.namespaces(pid)
    if not all(theirs) or theirs == processes.namespaces("self"):
        return ""
    named = environ.get("RANKDBG_DIR") or f"/tmp/rankdbg-{_user_inside(pid)}"
    return f"{rendezvous.root_of(pid)}{os.path.abspath(os.path.join('/', named))}"


def is_contained(directory: str) -> bool:
    return rendezvous.pid_of_root(directory) != 0


def find_card(directory: str) -> tuple[dict[str, Any], str] | None:
    """The card of the one process whose directory this is, with the pids that processes have here
    (`ppid_inside`: as its agent knows its parent), and the path of its file. Raises OSError or
    DirectoryRefused."""
    pid = rendezvous.pid_of_root(directory)
    stat, inside = processes.read_stat(pid), processes.pid_inside(pid)
    namespace = processes.namespaces(pid)[0]
    if stat is None:
        return None
    descriptor = open_without_links(pid, directory)
    try:
        rendezvous.check_status(directory, os.fstat(descriptor))
        for stem in rendezvous.file_stems(inside, namespace):
            name = f"{stem}.json"
            card = read_card(name, descriptor)
            if card and (card["start"], card["pid_namespace"]) == (stat.start, namespace):
                here = {"pid": pid, "ppid": stat.ppid, "ppid_inside": card["ppid"]}
                return {**card, **here}, os.path.join(directory, name)
    finally:
        os.close(descriptor)
    return None


def find_dead(directory: str, job: object) -> list[tuple[dict[str, Any], str]]:
    """The cards of dead processes in the container of the process whose directory this is, and the
    paths of their files. Their pids are those that they had inside. Raises OSError or DirectoryRefused."""
    pid = rendezvous.pid_of_root(directory)
    namespace = processes.namespaces(pid)[0]
    descriptor = open_without_links(pid, directory)
    try:
        rendezvous.check_status(directory, os.fstat(descriptor))
        names = [name for name in os.listdir(f"/proc/self/fd/{descriptor}") if _is_card(name)]
        cards = {name: card for name in names if (card := read_card(name, descriptor))}
    finally:
        os.close(descriptor)
    living = _living(namespace)
    return [
        (card, os.path.join(directory, name))
        for name, card in cards.items()
        if card["pid_namespace"] == namespace
        and card["labels"].get("job") == job
        and (card["pid"], card["start"]) not in living
    ]


def _is_card(name: str) -> bool:
    return name.endswith(".json")


def _living(namespace: str) -> set[tuple[int, int]]:
    """The processes of a PID namespace, by pid inside and start."""
    there = [pid for pid in processes.all_pids() if processes.namespaces(pid)[0] == namespace]
    stats = {pid: processes.read_stat(pid) for pid in there}
    return {(processes.pid_inside(pid), stat.start) for pid, stat in stats.items() if stat}


def open_without_links(pid: int, directory: str) -> int:
    """A link in the container would be followed from our root."""
    root = rendezvous.root_of(pid)
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY)
    for name in directory.removeprefix(root).strip("/").split("/"):
        try:
            below = os.open(name, _NO_LINKS, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _user_inside(pid: int) -> int:
    """The number of our user in the user namespace of a process."""
    ours = os.geteuid()
    try:
        with open(f"/proc/{pid}/uid_map") as file:
            ranges = [[int(word) for word in line.split()] for line in file]
    except (OSError, ValueError):
        return ours
    for inside, outside, count in ranges:
        if outside <= ours < outside + count:
            return inside + ours - outside
    return ours
