"""Log files: finding them in given paths, and reading their bytes."""

from __future__ import annotations

import io
import itertools
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import IO, Any, cast

from rankdbg.files.foreign_files import data_ranges, open_file

BLOCK = 1 << 20
# Of directories. Each file that is read for its messages takes a piece of it into memory.
MOST_FILES = 10_000
# What a log may unpack to: repeated lines shrink to a hundredth, hardly to less.
_MOST_RATIO, _MUCH = 200, 256 << 20
# Folders that hold no logs, and files that are data however large they are.
_FOLDERS = {".git", "__pycache__", "node_modules", ".venv", "site-packages"}
_DATA = re.compile(
    r"\.(pt|pth|bin|safetensors|ckpt|distcp|npy|npz|pkl|pickle|parquet|arrow|so|o|a|py|pyc|whl|zip|tar"
    r"|tgz|png|jpe?g|gif|svg|pdf|mp4|sqlite|db|ipynb|nsys-rep|qdstrm)$",
    re.IGNORECASE,
)
_OPENERS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ": "lzma",
    b"\x28\xb5\x2f\xfd": "zstd",
}


def is_data(path: str) -> bool:
    """Whether the name of a file shows that it is not text."""
    return _DATA.search(path) is not None


def find_logs(paths: Iterable[str]) -> Iterator[str]:
    """Given files, and in given folders all files that may be logs, sorted by name; at most
    MOST_FILES + 1, to detect that there are too many."""
    return itertools.islice(_find_logs(paths), MOST_FILES + 1)


def too_many(count: int) -> str:
    """The warning if files were omitted; empty if none were."""
    if count <= MOST_FILES:
        return ""
    return (
        f"more than {MOST_FILES} log files: only the first {MOST_FILES} by name are read; "
        "name a directory further down, or the files"
    )


def _find_logs(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if name not in _FOLDERS)
            for name in sorted(names):
                whole = os.path.join(folder, name)
                # Reading a pipe or a device would never end.
                if not is_data(name) and os.path.isfile(whole):
                    yield whole


def open_log(path: str) -> IO[bytes]:
    """The bytes of a log, unpacked if it is compressed. Only of a regular file: reading a pipe or a
    device would never end."""
    file = open_file(path)
    try:
        kind = packing(file)
        if not kind:
            return io.BufferedReader(file)  # type: ignore[type-var]
        most = max(_MUCH, _MOST_RATIO * os.fstat(file.fileno()).st_size)
        # Not by name again: it may be another file by now.
        if kind == "zstd":
            return cast("IO[bytes]", _Bounded(_zstd(path), most))
        return cast("IO[bytes]", _Bounded(import_module(kind).open(file, "rb"), most, file))
    except BaseException:
        file.close()
        raise


def is_packed(path: str) -> bool:
    with open_file(path) as file:
        return bool(packing(file))


def packing(file: IO[bytes]) -> str:
    """How it is compressed; empty if it is not."""
    start = os.pread(file.fileno(), 8, 0)
    return next((kind for magic, kind in _OPENERS.items() if start.startswith(magic)), "")


class _Bounded:
    """A compressed file with a limit on the unpacked size: 10 MB of gzip may be 10 GB of zeros,
    and of bzip2 even more."""

    def __init__(self, file: IO[bytes], most: int, packed: IO[bytes] | None = None) -> None:
        self._file, self._packed = file, packed
        self._most = most

    def read(self, size: int = BLOCK) -> bytes:
        return self._counted(self._file.read(size))

    def read1(self, size: int = BLOCK) -> bytes:
        read: Callable[[int], bytes] = getattr(self._file, "read1", self._file.read)
        return self._counted(read(size))

    def _counted(self, data: bytes) -> bytes:
        if self._file.tell() > self._most:
            raise OSError(
                f"it unpacks to more than {self._most >> 20} MiB, too much for a log of its "
                "size; to read it anyway, unpack it first"
            )
        return data

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, place: int) -> int:
        """Forwards, by reading."""
        while self._file.tell() < place and self.read(min(BLOCK, place - self._file.tell())):
            pass
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        if self._packed is not None:
            self._packed.close()

    def __enter__(self) -> _Bounded:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _zstd(path: str) -> IO[bytes]:
    """From Python 3.14, or a package or the program if installed."""
    for name in ("compression.zstd", "zstandard"):
        try:
            module: Any = import_module(name)
        except ImportError:
            continue
        opened: IO[bytes] = module.open(path, "rb")
        return opened
    try:
        return cast("IO[bytes]", _Unpacked(["zstd", "-dcq", "--", path]))
    except FileNotFoundError:
        raise OSError("is compressed with zstd; to read it: pip install zstandard") from None


class _Unpacked(io.RawIOBase):
    """What a program writes."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._place = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        assert self._process.stdout is not None and self._process.stderr is not None
        part = os.read(self._process.stdout.fileno(), len(buffer))
        buffer[: len(part)] = part
        self._place += len(part)
        if not part and self._process.wait():
            raise OSError(self._process.stderr.read().decode("utf-8", "replace").strip())
        return len(part)

    def tell(self) -> int:
        return self._place

    def close(self) -> None:
        if not self.closed:
            self._process.kill()
            self._process.communicate()
        super().close()


def blocks(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Large blocks, each with its offset; holes are skipped, and a hole at the end is an empty
    block after it. A damaged file yields its intact part before the error."""
    place = file.tell()
    for begin, end in _ranges(file, place):
        if begin > place:
            place = file.seek(begin)
        for block in _read(file, end - place):
            yield place, block
            place += len(block)


def _ranges(file: IO[bytes], place: int) -> list[tuple[int, float]]:
    """What is to be read from this place on. The last one has no end: the file may grow."""
    everything: list[tuple[int, float]] = [(place, float("inf"))]
    if not isinstance(file, io.BufferedReader):
        return everything
    ranges = data_ranges(file)
    size = os.fstat(file.fileno()).st_size
    file.seek(place)
    made: list[tuple[int, float]] = [
        (max(begin, place), end) for begin, end in ranges if end > place
    ]
    if not made or made[-1][1] < size:
        made.append((max(size, place), float("inf")))
    else:
        made[-1] = made[-1][0], float("inf")
    return made


def _read(file: IO[bytes], most: float) -> Iterator[bytes]:
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    parts: list[bytes] = []
    size = 0
    failure: Exception | None = None
    while True:
        try:
            part = read(int(min(BLOCK, most - size)))
        except Exception as error:
            part, failure = b"", error
        parts.append(part)
        size += len(part)
        if size >= min(BLOCK, most) or not part:
            yield b"".join(parts)
            most -= size
            parts, size = [], 0
        if failure:
            raise failure
        if not part or most <= 0:
            return
