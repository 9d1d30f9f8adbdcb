"""Untrusted files, opened so that they cannot hang this process or fill its memory.

A name in a directory may be a pipe without a writer, or a link to /dev/zero; a file may be a
sparse file of a terabyte. Only regular files are opened, and pipes that the user has given
(`--rules <(generate)`), with a limit on the size and on the time without data.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, BinaryIO

PIECE = 1 << 20
# A pipe may be slow (zcat of a file on a busy server), but not without limit.
SILENT_SECONDS = 30.0
# Of a file with more holes than these, the rest counts as written.
_MOST_RANGES = 10_000
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class Unreadable(OSError):
    """Why a file is not read; `strerror` completes "cannot read PATH: ..."."""

    def __init__(self, why: str, number: int = errno.EINVAL) -> None:
        super().__init__(number, why)


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file, unbuffered. Raises OSError, also for anything else."""
    descriptor = _open(path)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise Unreadable(f"it is {_KINDS.get(kind, 'something else')}, not a regular file")
    return open(descriptor, "rb", buffering=0)


def is_pipe(path: str | os.PathLike[str]) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def read_bytes(path: str | os.PathLike[str], most: int, named: bool = False) -> bytes:
    """The content of a regular file, or of a pipe if the user has `named` it. Raises OSError, also
    for more than `most` bytes."""
    parts: list[bytes] = []
    size = 0
    for part in _pipe_pieces(path) if named and is_pipe(path) else _file_pieces(path, most):
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    return b"".join(parts)


def copy_pipe(path: str, to: IO[bytes], most: int) -> None:
    """Copy a pipe to a file. Raises OSError if there is no data for too long, or more than `most`
    bytes; the data before that is in the file."""
    left = most
    for part in _pipe_pieces(path):
        to.write(part[:left])
        left -= len(part)
        if left < 0:
            raise _too_large(most)


def data_ranges(file: IO[bytes]) -> list[tuple[int, int]]:
    """(begin, end) of the data in a file, without its holes. One range if the file system does not
    report holes."""
    status = os.fstat(file.fileno())
    size = status.st_size
    whole = [(0, size)] if size else []
    if status.st_blocks * 512 >= size:
        return whole
    ranges: list[tuple[int, int]] = []
    end = 0
    try:
        while end < size and len(ranges) < _MOST_RANGES:
            begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            ranges.append((begin, end))
    except OSError as error:
        if error.errno != errno.ENXIO:  # only a hole follows
            return whole
        end = size
    if end < size:
        ranges[-1] = ranges[-1][0], size
    return ranges


def _open(path: str | os.PathLike[str]) -> int:
    """O_NONBLOCK: opening a pipe would wait for a writer."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except ValueError:  # a name with a NUL in it
        raise Unreadable("the name is not a file's") from None


def _file_pieces(path: str | os.PathLike[str], most: int) -> Iterator[bytes]:
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise _too_large(most)
        while part := file.read(PIECE):
            yield part


def _pipe_pieces(path: str | os.PathLike[str]) -> Iterator[bytes]:
    with open(_open(path), "rb", buffering=0) as file:
        # An unnamed pipe has had its writer; a named one may get it later.
        begun = os.readlink(f"/proc/self/fd/{file.fileno()}").startswith("pipe:")
        poll = select.poll()
        poll.register(file, select.POLLIN)
        while True:
            part = file.read(PIECE)  # None: nothing yet; empty: no writer
            if part:
                begun = True
                yield part
                continue
            if part == b"" and begun:
                return
            events = poll.poll(SILENT_SECONDS * 1000)
            if not events:
                why = f"nothing was read from the pipe for {SILENT_SECONDS:.0f} s"
                raise Unreadable(why, errno.ETIMEDOUT)
            begun = begun or not events[0][1] & select.POLLIN


def _too_large(most: int) -> Unreadable:
    return Unreadable(f"it is larger than {most >> 20} MiB", errno.EFBIG)
