"""Log files: which of the given paths are some, and how their bytes come out of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

BLOCK = 1 << 20
# Folders that hold no logs, and files that are data however large they are.
_FOLDERS = {".git", "__pycache__", "node_modules", ".venv", "site-packages"}
_DATA = (
    ".pt .pth .bin .safetensors .ckpt .npy .npz .pkl .pickle .parquet .arrow .so .o .a .pyc .whl "
    ".zip .tar .tgz .png .jpg .jpeg .gif .svg .pdf .mp4 .sqlite .db .py .ipynb .nsys-rep .distcp"
).split()
_OPENERS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ": "lzma",
    b"\x28\xb5\x2f\xfd": "zstd",
}


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
                if not name.lower().endswith(tuple(_DATA)) and os.path.isfile(whole):
                    yield whole


def open_log(path: str) -> IO[bytes]:
    """The bytes of a log, unpacked if it is compressed."""
    file = open(path, "rb", buffering=0)
    try:
        start = os.pread(file.fileno(), 8, 0) if file.seekable() else b""
        kind = next((kind for magic, kind in _OPENERS.items() if start.startswith(magic)), "")
        return _unpacked(kind, path, file) if kind else file
    except BaseException:
        file.close()
        raise


def _unpacked(kind: str, path: str, file: IO[bytes]) -> IO[bytes]:
    file.close()
    if kind == "zstd":
        return _zstd(path)
    import importlib

    module: Any = importlib.import_module(kind)
    opened: IO[bytes] = module.open(path, "rb")
    return opened


def _zstd(path: str) -> IO[bytes]:
    """Python 3.14 has it, before that a package that may be there, or the program."""
    import importlib

    for name in ("compression.zstd", "zstandard"):
        try:
            module: Any = importlib.import_module(name)
        except ImportError:
            continue
        opened: IO[bytes] = module.open(path, "rb")
        return opened
    raise OSError("is compressed with zstd, which needs `pip install zstandard`")


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block
