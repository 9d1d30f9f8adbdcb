"""Log files: which of the given paths are some, and how their bytes come out of them."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import IO, Any, cast

BLOCK = 1 << 20
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
    """Whether a file's name says that it is no text."""
    return _DATA.search(path) is not None


def find_logs(paths: Iterable[str]) -> Iterator[str]:
    """Given files as they are; of folders all files below that may be logs, in order of name."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if name not in _FOLDERS)
            for name in sorted(names):
                whole = os.path.join(folder, name)
                # A pipe or a device in a folder of logs would be read for ever.
                if not is_data(name) and os.path.isfile(whole):
                    yield whole


def open_log(path: str) -> IO[bytes]:
    """The bytes of a log, unpacked if it is compressed."""
    with open(path, "rb", buffering=0) as file:
        start = file.read(8) if file.seekable() else b""
    kind = next((kind for magic, kind in _OPENERS.items() if start.startswith(magic)), "")
    if kind == "zstd":
        return _zstd(path)
    # `io.open` is `open`: one call for all of them.
    opened: IO[bytes] = import_module(kind or "io").open(path, "rb")
    return opened


def _zstd(path: str) -> IO[bytes]:
    """Python 3.14 has it, before that a package that may be there, or the program."""
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
        raise OSError("is compressed with zstd, which needs `pip install zstandard`") from None


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

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """Forwards, by reading."""
        while self._place < place and self.read(min(BLOCK, place - self._place)):
            pass
        return self._place

    def close(self) -> None:
        if not self.closed:
            self._process.kill()
            self._process.communicate()
        super().close()


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Large ones. Of a damaged file, what came before the damage comes before the error."""
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    parts: list[bytes] = []
    size = 0
    failure: Exception | None = None
    while True:
        try:
            part = read(BLOCK)
        except Exception as error:
            part, failure = b"", error
        parts.append(part)
        size += len(part)
        if size >= BLOCK or not part:
            yield b"".join(parts)
            parts, size = [], 0
        if failure:
            raise failure
        if not part:
            return
