"""Lines of ranks that another process prints, too: each is shown once, as its rank has written it.

Ray's driver prints the lines of its workers and leaves some out: `[repeated 3x across cluster]` are
three ranks that are not named. torchrun --tee prints the lines of its ranks' files; a line that is
still being written when torchrun reads it comes in pieces, between those of other ranks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rankdbg.logs.entries import Entry, Printer
from rankdbg.logs.messages import CUT
from rankdbg.logs.places import LogFile, ray_worker, torchrun_rank

_REMEMBERED = 100_000
_TEED = re.compile(r"\[(?:[A-Za-z_]\w*\|)?[A-Za-z_]+(\d+)\]:")

_Owner = tuple[Printer, int]  # Ray's workers by pid, torchrun's ranks by their number on their node
_OwnLine = tuple[_Owner, str]


class Copies:
    def __init__(self, files: Sequence[LogFile]) -> None:
        self._files = files  # others may come while they are followed
        self._local_ranks: dict[int, int] = {}
        self._own: dict[_OwnLine, None] = {}
        self._begun: dict[_Owner, str] = {}  # lines of which torchrun has printed a part
        self.hidden = 0  # messages that Ray has omitted and that are in no file

    def without(self, entries: Sequence[Entry]) -> list[Entry]:
        self._remember(entries)
        beginnings = _Beginnings(self._own)
        kept = []
        for entry in entries:
            if entry.copied and self._is_copy(entry, beginnings):
                continue
            if entry.repeated:
                self.hidden += entry.repeated
                told = f"{entry.text}  [repeated {entry.repeated}x across cluster]"
                entry = entry._replace(text=told)
            kept.append(entry)
        return kept

    def _remember(self, entries: Sequence[Entry]) -> None:
        owners = [_owner(file) for file in self._files]
        self._local_ranks = {
            file.rank: owner[1]
            for file, owner in zip(self._files, owners, strict=True)
            if owner is not None and owner[0] == "torchrun" and file.rank is not None
        }
        for entry in entries:
            owner = owners[entry.file]
            if owner is not None and not entry.copied:
                self._own.update(dict.fromkeys((owner, text) for text in _lines(entry.text, owner)))
        # A copy appears soon after its original.
        for key in [*self._own][:-_REMEMBERED]:
            del self._own[key]

    def _is_copy(self, entry: Entry, beginnings: _Beginnings) -> bool:
        if entry.copied == "ray":
            return entry.pid is not None and (("ray", entry.pid), entry.text) in self._own
        owner = self._rank_of(entry)
        # All of them: each may be the end of a line that has begun.
        are_own = [
            (owner, text) in self._own or self._are_parts(owner, text, beginnings)
            for text in _lines(entry.text, owner)
        ]
        return all(are_own)

    def _rank_of(self, copy: Entry) -> _Owner:
        """By its number on its node, which is that of its file."""
        assert copy.rank is not None
        return "torchrun", self._local_ranks.get(copy.rank, copy.rank)

    def _are_parts(self, owner: _Owner, line: str, beginnings: _Beginnings) -> bool:
        """Whether a line consists of beginnings of ranks' lines, and the end of one."""
        *begun, (last, end) = _parts(owner, line)
        for who, text in begun:
            self._begun[who] = whole = self._begun.get(who, "") + text
            if not beginnings.have(who, whole):
                return False
        whole = self._begun.pop(last, "") + end
        is_cut = whole.endswith(CUT) and beginnings.have(last, whole.removesuffix(CUT))
        return is_cut or (last, whole.strip()) in self._own


def _owner(file: LogFile) -> _Owner | None:
    """Whose file it is."""
    if worker := ray_worker(file.path.rpartition("/")[2]):
        return "ray", file.pid or worker[2]
    local = torchrun_rank(file.path)
    return None if local is None else ("torchrun", local)


def _lines(text: str, owner: _Owner) -> list[str]:
    """What is compared: torchrun copies lines, whatever message they are part of."""
    return [text] if owner[0] == "ray" else [line.strip() for line in text.splitlines()]


def _parts(owner: _Owner, line: str) -> Iterator[tuple[_Owner, str]]:
    """A line that torchrun has printed, and what it has printed behind it before its end."""
    first, *others = _TEED.split(line)
    yield owner, first
    for number, text in zip(others[::2], others[1::2], strict=True):
        yield ("torchrun", int(number)), text


class _Beginnings:
    """Finds the lines of a rank that begin with a text."""

    def __init__(self, own: Iterable[_OwnLine]) -> None:
        self._own = own
        self._texts: dict[_Owner, str] = {}

    def have(self, owner: _Owner, text: str) -> bool:
        if not self._texts:
            lines: dict[_Owner, list[str]] = defaultdict(list)
            for who, line in self._own:
                lines[who].append(line)
            self._texts = {who: "\n".join(["", *each]) for who, each in lines.items()}
        return f"\n{text.lstrip()}" in self._texts.get(owner, "")
