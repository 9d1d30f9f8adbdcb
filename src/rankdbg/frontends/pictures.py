"""What came home of a profile -> the files of one picture, and what a table says about it."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from rankdbg.frontends.profiling import Recorded
from rankdbg.profiles import chrome, flame, speedscope, tree
from rankdbg.profiles.documents import Profile, read_profile
from rankdbg.types import Rank, Silence

FLAME, SPEEDSCOPE, TRACE = "flame.html", "profile.speedscope.json", "trace.json.gz"
NOTHING_DONE = "no operator in that time; rankdbg why tells where it stands"
UNITS = {"samples": "time", "microseconds": "time", "bytes": "memory"}

Named = Callable[[Sequence[Rank]], str]


def read_all(recorded: Recorded, folder: Path, named: Named) -> list[Profile]:
    """One for each rank; where these are traces, the merged one is written meanwhile. A rank
    whose profile cannot be read becomes silent."""
    traced = [r for r in recorded.ranks if "trace" in recorded.files[r.process]]
    profiles = list(_merge_traces(recorded, traced, folder / TRACE, named)) if traced else []
    for rank in recorded.ranks:
        files = recorded.files[rank.process]
        paths = [files[content] for content in ("folded", "gpu") if content in files]
        try:
            documents = [json.loads(gzip.decompress(path.read_bytes())) for path in paths]
            if documents:
                profiles.append(read_profile(rank, documents))
            elif "memray" in files:
                reason = f"only memray can read what it left: memray flamegraph {files['memray']}"
                recorded.silent.append(Silence(rank, reason))
        except (ValueError, KeyError, TypeError, IndexError, EOFError) as error:
            reason = f"its profile is damaged ({type(error).__name__}: {error})"
            recorded.silent.append(Silence(rank, reason))
    return profiles


def _merge_traces(
    recorded: Recorded, ranks: Sequence[Rank], path: Path, named: Named
) -> Iterator[Profile]:
    def part(rank: Rank) -> chrome.Part:
        clock = recorded.clocks.get(rank.host)
        ahead = round(clock.ahead * 1e9) if clock else 0
        file = recorded.files[rank.process]["trace"]
        name = f"rank {named([rank])} · {rank.host}"
        return chrome.Part(rank, name, lambda: _open_text(file), ahead)

    with gzip.open(path, "wt", 1, encoding="utf-8") as out:
        for merged in chrome.merge(map(part, ranks), out):
            process = merged.profile.rank.process
            if not merged.whole:
                recorded.notes.setdefault(process, []).append("its trace is cut short")
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
    """The names of the files that there are then."""
    grown = tree.grow(profiles)

    def whose(indices: Sequence[int]) -> str:
        return named([profiles[index].rank for index in indices])

    with open(folder / SPEEDSCOPE, "w", encoding="utf-8") as out:
        speedscope.write(out, profiles, grown, title, whose)
    ranks = [named([profile.rank]) for profile in profiles]
    unit = UNITS.get(profiles[0].unit, profiles[0].unit)
    sides = {whose(side): side for side in diff} if diff else None
    html = flame.page(grown, ranks, title, unit, sides)
    (folder / FLAME).write_text(html, "utf-8")
    return [name for name in (FLAME, SPEEDSCOPE, TRACE) if (folder / name).exists()]


def nsys_reports(recorded: Recorded, folder: Path) -> list[str]:
    """Their names below the folder: nsys has its own pictures."""
    files = [recorded.files[rank.process] for rank in recorded.ranks]
    kinds = ("nsys", "qdstrm")
    return [str(each[kind].relative_to(folder)) for each in files for kind in kinds if kind in each]


def make_folder(path: Path) -> Path:
    """A new one that nobody else can read, with one for the files of ranks in it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    ranks = path / "ranks"
    ranks.mkdir(mode=0o700)
    return ranks


def summary(rank: Rank, profile: Profile | None, recorded: Recorded) -> dict[str, Any]:
    files = recorded.files.get(rank.process, {})
    return {
        "rank": rank.number,
        "host": rank.host,
        "pid": rank.pid,
        "unit": profile.unit if profile else None,
        "whole": profile.whole if profile else None,
        "rate": profile.rate if profile else None,
        "stopped": recorded.stopped.get(rank.process),
        "notes": recorded.notes.get(rank.process, []),
        "files": {content: str(path) for content, path in files.items()},
    }
