"""The collected data of a profile -> the files of one picture, and the rows of a table."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from rankdbg.files import private_files
from rankdbg.investigations.profiles.profiling import RecordedFiles
from rankdbg.profiles import chrome, flame, speedscope, tree
from rankdbg.profiles.documents import Profile, read_profile
from rankdbg.types import Rank, Silence

FLAME, SPEEDSCOPE, TRACE = "flame.html", "profile.speedscope.json", "trace.json.gz"
NOTHING_DONE = "no operator ran in that time; rankdbg why shows where it waits"
UNITS = {"samples": "time", "microseconds": "time", "bytes": "memory"}
MOST_UNPACKED = 2**30

_PIECE = 1 << 20
# A number too large for a float is an OverflowError.
_DAMAGED = (ValueError, LookupError, TypeError, OverflowError, EOFError, zlib.error, RecursionError)

Named = Callable[[Sequence[Rank]], str]


def read_all(recorded: RecordedFiles, folder: Path, named: Named) -> list[Profile]:
    """One profile for each rank; traces are merged into a file at the same time. A rank whose
    profile cannot be read is listed with the reason."""
    traced = [r for r in recorded.ranks if "trace" in recorded.files[r.process]]
    profiles = list(_merge_traces(recorded, traced, folder / TRACE, named)) if traced else []
    for rank in recorded.ranks:
        files = recorded.files[rank.process]
        paths = [files[content] for content in ("folded", "gpu") if content in files]
        try:
            documents = [_read_document(path) for path in paths]
            if documents:
                profiles.append(read_profile(rank, documents))
            elif "memray" in files:
                reason = f"to read its data: memray flamegraph {files['memray']}"
                recorded.no_response.append(Silence(rank, reason))
        except _DAMAGED as error:
            reason = f"its profile is damaged ({type(error).__name__}: {error})"
            recorded.no_response.append(Silence(rank, reason))
    return profiles


def _read_document(path: Path) -> Any:
    data = bytearray()  # a read of so many bytes would reserve them at once
    with gzip.open(path, "rb") as file:
        while piece := file.read(_PIECE):
            data += piece
            if len(data) > MOST_UNPACKED:
                raise ValueError(f"it unpacks to more than {MOST_UNPACKED >> 20} MiB")
    return json.loads(data)


def _merge_traces(
    recorded: RecordedFiles, ranks: Sequence[Rank], path: Path, named: Named
) -> Iterator[Profile]:
    def part(rank: Rank) -> chrome.TracePart:
        clock = recorded.clocks.get(rank.host)
        ahead = round(clock.ahead * 1e9) if clock else 0
        file = recorded.files[rank.process]["trace"]
        name = f"rank {named([rank])} · {rank.host}"
        return chrome.TracePart(rank, name, lambda: _open_text(file), ahead)

    with (
        private_files.open_file(path, "wb") as file,
        gzip.open(file, "wt", 1, encoding="utf-8") as out,
    ):
        for merged in chrome.merge(map(part, ranks), out):
            process = merged.profile.rank.process
            if not merged.whole:
                recorded.notes.setdefault(process, []).append("its trace is truncated")
            elif merged.idle:
                recorded.notes.setdefault(process, []).append(NOTHING_DONE)
                recorded.idle.add(process)
            yield merged.profile


def _open_text(path: Path) -> TextIO:
    return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8", errors="replace")


def write_pictures(
    folder: Path,
    profiles: Sequence[Profile],
    title: str,
    named: Named,
    diff: tuple[Sequence[int], Sequence[int]] | None,
) -> list[str]:
    """Returns the names of the files."""
    grown = tree.grow(profiles)

    def whose(indices: Sequence[int]) -> str:
        return named([profiles[index].rank for index in indices])

    with private_files.open_file(folder / SPEEDSCOPE, "w", "utf-8") as out:
        speedscope.write(out, profiles, grown, title, whose)
    ranks = [named([profile.rank]) for profile in profiles]
    unit = UNITS.get(profiles[0].unit, profiles[0].unit)
    sides = {whose(side): side for side in diff} if diff else None
    html = flame.page(grown, ranks, title, unit, sides)
    with private_files.open_file(folder / FLAME, "w", "utf-8") as out:
        out.write(html)
    return [name for name in (FLAME, SPEEDSCOPE, TRACE) if (folder / name).exists()]


def nsys_reports(recorded: RecordedFiles, folder: Path) -> list[str]:
    """Names of the nsys reports in the folder; nsys has its own viewer."""
    files = [recorded.files[rank.process] for rank in recorded.ranks]
    kinds = ("nsys", "qdstrm")
    return [str(each[kind].relative_to(folder)) for each in files for kind in kinds if kind in each]


def make_folder(path: Path) -> Path:
    """A new private folder, with one for the files of ranks in it."""
    private_files.make_directory(path)
    ranks = path / "ranks"
    ranks.mkdir(mode=0o700)
    return ranks


def summary(rank: Rank, profile: Profile | None, recorded: RecordedFiles) -> dict[str, Any]:
    files = recorded.files.get(rank.process, {})
    return {
        "rank": rank.number,
        "role": rank.role,
        "host": rank.host,
        "pid": rank.pid,
        "unit": profile.unit if profile else None,
        "whole": profile.whole if profile else None,
        "rate": profile.rate if profile else None,
        "stopped": recorded.stopped.get(rank.process),
        "notes": recorded.notes.get(rank.process, []),
        "files": {content: str(path) for content, path in files.items()},
    }
