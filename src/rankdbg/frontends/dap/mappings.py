"""Local paths of the ranks' files, found by content.

An editor uses local paths. If a job runs from another folder or on another machine, debugpy
needs a mapping from remote to local folders.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from rankdbg.errors import RankdbgError
from rankdbg.investigations import local_files
from rankdbg.investigations.rank_labels import named
from rankdbg.session import Session
from rankdbg.types import Answer, Rank
from rankdbg.wire.questions import DigestSources

Mapping = dict[str, str]

# Files that are looked for here; a job has a few hundred of its own at most.
MOST_FILES = 500


class Mappings:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_host: dict[str, list[Mapping]] = {}

    def of(self, rank: Rank) -> list[Mapping]:
        """Mappings given by the user come first."""
        named = [{"localRoot": ours, "remoteRoot": theirs} for ours, theirs in self._named()]
        return named + self._by_host.get(rank.host, [])

    def find(self, ranks: Sequence[Rank]) -> Iterator[str]:
        """Compare the files that ranks have loaded, one rank per host; yields warnings."""
        first = {rank.host: rank for rank in reversed(ranks) if rank.agent}
        try:
            answers = self._session.ask(DigestSources(), list(first.values()))
        except RankdbgError:
            return
        warned: set[str] = set()
        for answer in answers:
            if isinstance(answer, Answer):
                roots, differing = match(answer.value.digests, self._named())
                self._by_host[answer.rank.host] = roots
                for file in [file for file in differing if file not in warned]:
                    warned.add(file)
                    who = named([answer.rank], list(first.values()))
                    yield f"breakpoints in {file} may not hit: {who} runs a different version of it"

    def _named(self) -> Sequence[tuple[str, str]]:
        return self._session.maps.pairs


def match(
    digests: dict[str, str], named: Iterable[tuple[str, str]] = (), workspace: str = "."
) -> tuple[list[Mapping], list[str]]:
    """Files of a rank with their digests -> local and remote folders; and local files whose
    content differs."""
    roots: Counter[tuple[str, str]] = Counter()
    differing: list[str] = []
    known = tuple(theirs for _, theirs in named)
    here, root = _by_name(workspace), os.path.abspath(workspace)
    for file, digest in list(digests.items())[:MOST_FILES]:
        there = PurePosixPath(file)
        if known and file.startswith(known):
            continue
        if there.is_relative_to(root):
            differing += [local_files.name(Path(file))] if _digest(Path(file)) != digest else []
            continue
        found = sorted(here.get(there.name, ()), key=lambda path: -_shared(path, there))
        same = [path for path in found if _digest(path) == digest]
        if same:
            roots[_roots(same[0], there)] += 1
        elif found and (_shared(found[0], there) > 1 or not os.path.isfile(file)):
            differing.append(local_files.name(found[0]))
    # debugpy takes the first that fits.
    ordered = sorted(roots, key=lambda pair: -len(pair[1]))
    return [{"localRoot": ours, "remoteRoot": theirs} for ours, theirs in ordered], differing


def _by_name(workspace: str) -> dict[str, list[Path]]:
    """Local Python files, by name."""
    found: dict[str, list[Path]] = {}
    for path in local_files.walk(workspace):
        if path.suffix == ".py":
            found.setdefault(path.name, []).append(path.absolute())
    return found


def _digest(path: Path) -> str:
    try:
        return local_files.digest(path)
    except OSError:
        return ""


def _shared(here: Path, there: PurePosixPath) -> int:
    """The number of equal path components, from the end."""
    pairs = zip(reversed(here.parts), reversed(there.parts), strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _roots(here: Path, there: PurePosixPath) -> tuple[str, str]:
    """The local and the remote folder above the components that both share."""
    shared = min(_shared(here, there), len(here.parts) - 1, len(there.parts) - 1)
    return str(here.parents[shared - 1]), str(there.parents[shared - 1])
