"""Which folder here is which folder where the ranks run: `--map LOCAL=REMOTE`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rankdbg.errors import BadInput


@dataclass(frozen=True)
class PathMaps:
    """Pairs of folders, the longest first: the most exact one counts."""

    pairs: tuple[tuple[str, str], ...] = ()

    def remote(self, file: str) -> str:
        """What the ranks call a file that is here."""
        return _exchanged(file, self.pairs)

    def local(self, file: str) -> str:
        """What a file of the ranks is called here."""
        return _exchanged(file, [(theirs, ours) for ours, theirs in self.pairs])


def parse(texts: Iterable[str]) -> PathMaps:
    pairs = []
    for text in texts:
        ours, equals, theirs = text.partition("=")
        if not (ours and equals and theirs.startswith("/")):
            hint = "--map ./src=/job/src"
            raise BadInput(f"{text!r} is not LOCAL=REMOTE, with an absolute REMOTE", hint=hint)
        here = Path(ours).expanduser().absolute()
        if not here.is_dir():
            raise BadInput(f"there is no folder {ours} here", f"in --map {text}")
        pairs.append((str(here), theirs.rstrip("/") or "/"))
    return PathMaps(tuple(sorted(pairs, key=lambda pair: -len(pair[0]))))


def _exchanged(file: str, pairs: Iterable[tuple[str, str]]) -> str:
    for before, after in pairs:
        if file.startswith(f"{before.rstrip('/')}/"):
            return f"{after.rstrip('/')}/{file[len(before.rstrip('/')) + 1 :]}"
    return file
