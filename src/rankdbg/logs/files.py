"""Log files: which of the given paths are some, and how their bytes come out of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import IO, Any

BLOCK = 4 << 20
# Folders that hold no logs, and files that are data however large they are.
_FOLDERS = {".git", "__pycache__", "node_modules", ".venv", "site-packages"}
_DATA = re.compile(
    r"\.(pt|pth|bin|safetensors|ckpt|distcp|npy|npz|pkl|pickle|parquet|arrow|so|o|a|py|pyc|whl|zip|tar"
    r"|tgz|png|jpe?g|gif|svg|pdf|mp4|sqlite|db|ipynb|nsys-rep)$",
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
    raise OSError("is compressed with zstd, which needs `pip install zstandard`")


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
