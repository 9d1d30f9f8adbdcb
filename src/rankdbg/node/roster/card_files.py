"""The cards of agents, from their files. Other programs of the user can write to the directory."""

from __future__ import annotations

import os
import stat as stat_module
from collections.abc import Iterable

from rankdbg import wire
from rankdbg.errors import RankdbgError
from rankdbg.process import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST = 1 << 20


def read_cards(
    directory: str, names: Iterable[str] | None = None
) -> dict[str, dict[str, Any] | None]:
    """By file name, all if no names are given; None for a file that is not a card. Raises OSError
    or DirectoryRefused."""
    descriptor = rendezvous.open_checked(directory)
    try:
        if names is None:
            names = sorted(name for name in os.listdir(descriptor) if name.endswith(".json"))
        return {name: read_card(name, descriptor) for name in names}
    finally:
        os.close(descriptor)


def read_card(path: str, directory: int | None = None) -> dict[str, Any] | None:
    """None for a file that is not a card, or not of the process that its name says."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, dir_fd=directory)
        with open(descriptor, "rb") as file:
            if not stat_module.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            card = wire.decode(file.read(_LARGEST))
    except (OSError, RankdbgError):
        return None
    wanted = {"pid": int, "start": int, "ppid": int, "labels": dict, "command": list}
    wanted.update({"pid_namespace": str, "python": str})
    if not all(type(card.get(name)) is kind for name, kind in wanted.items()):
        return None
    return card if card["pid"] == rendezvous.pid_in_name(path) else None
