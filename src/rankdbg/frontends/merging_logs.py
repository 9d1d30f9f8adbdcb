"""Messages of many files -> what there is to show: who says what, each message once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rankdbg.logs.entries import Entry
from rankdbg.logs.places import LogFile, named_rank, ray_worker
from rankdbg.selection import format_numbers
from rankdbg.types import Rank

_REMEMBERED = 100_000


class Who(NamedTuple):
    """A rank by its number, and by its role where numbers are not enough; else a name."""

    number: int | None
    name: str


class Names:
    """How those who speak in logs are called."""

    def __init__(self, ranks: Sequence[Rank], files: Iterable[LogFile] = ()) -> None:
        numbers = [rank.number for rank in ranks if rank.number is not None]
        if not ranks:  # there are only files, some of whose names say a role and a rank
            named = {(each.role, each.rank) for file in files if (each := named_rank(file.path))}
            numbers = [rank for _, rank in named]
        self._by_role = len(numbers) > len(set(numbers))

    def of(self, entry: Entry) -> Who:
        if entry.rank is not None:
            return Who(entry.rank, self._told_apart(entry.name, entry.pid))
        # Without a number, a process is told from others of its kind by its pid.
        return Who(None, entry.name if entry.pid is None else f"{entry.name}:{entry.pid}")

    def of_rank(self, rank: Rank) -> Who:
        if rank.number is not None:
            return Who(rank.number, self._told_apart(rank.role, rank.pid))
        return Who(None, f"{rank.role}:{rank.pid}")

    def _told_apart(self, role: str, pid: int | None) -> str:
        if not self._by_role:
            return ""
        return role or ("" if pid is None else f"pid {pid}:")


def label(who: Iterable[Who]) -> str:
    """`0-3,7`, `Trainer 0-3`, `launcher`: never less than all of them."""
    by_name: dict[str, list[int]] = {}
    others = []
    for each in who:
        if each.number is None:
            others.append(each.name)
        else:
            by_name.setdefault(each.name, []).append(each.number)
    parts = [f"{name} {format_numbers(by_name[name])}".strip() for name in sorted(by_name)]
    return ", ".join([*parts, *sorted(others)])


class Copies:
    """What Ray's driver prints of its workers stands in their own files as well, and there with
    nothing left out: `[repeated 3x across cluster]` are three ranks that are not named."""

    def __init__(self, files: Sequence[LogFile]) -> None:
        self._files = files
        self._own: dict[tuple[int, str], None] = {}
        self.hidden = 0  # messages that Ray has left out, and that no file has

    def without(self, entries: Sequence[Entry]) -> list[Entry]:
        for entry in entries:
            worker = self._pid_of_worker(entry.file)
            if worker is not None and not entry.copied:
                self._own[worker, entry.text] = None
        # A copy comes soon after what it is a copy of.
        for key in [*self._own][:-_REMEMBERED]:
            del self._own[key]
        kept = []
        for entry in entries:
            if entry.copied and entry.pid is not None and (entry.pid, entry.text) in self._own:
                continue
            if entry.repeated:
                self.hidden += entry.repeated
                told = f"{entry.text}  [repeated {entry.repeated}x across cluster]"
                entry = entry._replace(text=told)
            kept.append(entry)
        return kept

    def _pid_of_worker(self, number: int) -> int | None:
        file = self._files[number]
        worker = ray_worker(file.path.rpartition("/")[2])
        return file.pid or worker[2] if worker else None
