"""Files that are written whole: a reader finds the old file or the new one, never a part of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def check_directory(path: Path) -> None:
    """OSError if a file cannot be written beside this one. Permissions alone do not tell: root has
    them all, also where the file system is read-only."""
    descriptor, draft = _create_draft(path, 0o600)
    os.close(descriptor)
    os.unlink(draft)


@contextmanager
def open_whole(path: Path, mode: int = 0o600, errors: str = "strict") -> Iterator[IO[str]]:
    """Text that takes the place of the file when all of it is written. If that fails, the old file
    stays, and nothing is left beside it. `errors`: of text that UTF-8 cannot encode."""
    descriptor, draft = _create_draft(path, mode)
    try:
        with open(descriptor, "w", encoding="utf-8", errors=errors) as file:
            yield file
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _create_draft(path: Path, mode: int) -> tuple[int, Path]:
    """Where others may write too, they can neither guess its name nor have put a link there."""
    draft = path.with_name(f".rankdbg-{os.urandom(8).hex()}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600)
    try:
        os.fchmod(descriptor, mode)
    except BaseException:  # OSError: a file system without modes
        os.close(descriptor)
        os.unlink(draft)
        raise
    return descriptor, draft
