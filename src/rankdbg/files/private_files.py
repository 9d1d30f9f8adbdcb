"""Files with data of a job, readable for their owner only.

Whatever the umask is: files have mode 0600, and new directories 0700. Existing directories are
not changed.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def make_directory(path: str | os.PathLike[str]) -> None:
    """With missing parents. FileExistsError if there is a file with that name."""
    place = os.fspath(path)
    missing = []
    while place and not os.path.isdir(place):
        missing.append(place)
        place = os.path.dirname(place)
    for place in reversed(missing):
        try:
            os.mkdir(place, 0o700)
        except FileExistsError:  # created by another rank in the meantime
            if not os.path.isdir(place):
                raise


def open_file(path: str | os.PathLike[str], mode: str, encoding: str | None = None) -> Any:
    """Like open(). An existing file is made private before anything is written."""
    return open(path, mode, encoding=encoding, errors="replace" if encoding else None, opener=_open)


def _open(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077 and os.path.isfile(path):
            os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
