"""Local source files that may be copies of those that ranks run."""

from __future__ import annotations

import hashlib
import os
import tokenize
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# The longest text that a rank accepts.
LARGEST = 4 << 20
# The limits of a search.
MOST_ENTRIES = 20_000
_SKIPPED = {"node_modules", "site-packages", "__pycache__", "build", "dist"}


def find(file: str) -> Path | None:
    """The same path, otherwise the longest end of it that exists in the current directory."""
    path = PurePosixPath(file)
    if path.is_absolute() and os.path.isfile(path):
        return Path(file)
    # Every package has an __init__.py: the name alone is not enough.
    fewest = 2 if path.name.startswith("__") else 1
    parts = path.parts[1:] if path.is_absolute() else path.parts
    for start in range(len(parts) - fewest + 1):
        here = Path(*parts[start:])
        if ".." not in here.parts and here.is_file():
            return here
    return None


def search(file: str) -> Path | None:
    """Anywhere below the current directory: the file that shares the longest end of the path;
    none if several do."""
    wanted = PurePosixPath(file).parts
    found = {path: _shared_end(path.parts, wanted) for path in walk(".") if path.name == wanted[-1]}
    longest = max(found.values(), default=0)
    best = [path for path, shared in found.items() if shared == longest]
    return best[0] if len(best) == 1 else None


def walk(folder: str) -> Iterator[Path]:
    """The files below a folder that may be user code."""
    entries = 0
    for place, folders, names in os.walk(folder):
        entries += len(folders) + len(names)
        if entries > MOST_ENTRIES:
            return
        folders[:] = [n for n in folders if not n.startswith(".") and n not in _SKIPPED]
        yield from (Path(place, name) for name in names)


def _shared_end(ours: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    shared = 0
    for mine, yours in zip(reversed(ours), reversed(theirs), strict=False):
        if mine != yours:
            break
        shared += 1
    return shared


def identity(path: Path) -> list[int]:
    """As sent by a rank: equal for the same file on the same disk, with the same content."""
    found = path.stat()
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]


def digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def read(path: Path) -> str | None:
    """Its text; None if it is too large or not Python source. (The name comes from a rank: code
    that runs there must not get access to other files of this user.)"""
    try:
        if path.suffix != ".py" or path.stat().st_size > LARGEST:
            return None
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, SyntaxError, ValueError):
        return None


def name(path: Path) -> str:
    """The path as a local user would write it."""
    try:
        return f"./{path.absolute().relative_to(Path.cwd())}"
    except (ValueError, OSError):
        return str(path)
