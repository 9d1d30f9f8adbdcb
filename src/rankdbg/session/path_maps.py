"""Local folders and their paths on the nodes: `--map LOCAL=REMOTE`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rankdbg.errors import BadInput


@dataclass(frozen=True)
class PathMaps:
    """Pairs of folders, the longest first: the most specific one is used."""

    pairs: tuple[tuple[str, str], ...] = ()

    def remote(self, file: str) -> str:
        """The path of a local file on the nodes."""
        return _exchanged(file, self.pairs)

    def local(self, file: str) -> str:
        """The local path of a file on the nodes."""
        return _exchanged(file, [(theirs, ours) for ours, theirs in self.pairs])


def parse(texts: Iterable[str]) -> PathMaps:
    pairs = []
    for text in texts:
        ours, equals, theirs = text.partition("=")
        if not (ours and equals and theirs.startswith("/")):
            hint = "--map ./src=/job/src"
            raise BadInput(
                f"invalid --map {text!r}: expected LOCAL=REMOTE with an absolute REMOTE", hint=hint
            )
        here = Path(ours).expanduser().absolute()
        if not here.is_dir():
            raise BadInput(f"no such folder: {ours}", f"in --map {text}")
        pairs.append((str(here), theirs.rstrip("/") or "/"))
    return PathMaps(tuple(sorted(pairs, key=lambda pair: -len(pair[0]))))


def _exchanged(file: str, pairs: Iterable[tuple[str, str]]) -> str:
    for before, after in pairs:
        if file.startswith(f"{before.rstrip('/')}/"):
            return f"{after.rstrip('/')}/{file[len(before.rstrip('/')) + 1 :]}"
    return file
