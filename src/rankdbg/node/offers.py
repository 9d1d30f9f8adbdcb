"""Tools that this node lacks and the client offers: sent when needed.

A question that needs one raises MissingTool. The client then sends the tool and repeats the
question; so the megabytes of py-spy are not sent to pods whose ranks all have agents.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

from rankdbg import wire
from rankdbg.errors import NodeFailed

# In the environment, for child processes.
_OFFERED = "RANKDBG_OFFERED"
_LANDED = "RANKDBG_LANDED"
# All modules of rankdbg: compiled, or as source.
REST = ("rankdbg-compiled", "rankdbg")
# What is run by path, also if rankdbg is imported from an archive.
PROGRAMS = ("bin/attach_guard.py", "bin/nvml.py")
_no_space: list[str] = []  # why all modules could not be unpacked
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class MissingTool(Exception):
    """This tool is needed to answer the question."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def offer(kinds: Iterable[str]) -> None:
    os.environ[_OFFERED] = " ".join(kinds)


def need(kind: str) -> None:
    """Raises MissingTool if the client can send it."""
    if kind in os.environ.get(_OFFERED, "").split():
        raise MissingTool(kind)


def need_rest() -> None:
    """Raises MissingTool if only the first modules of rankdbg were sent."""
    if _no_space:
        what = f"cannot copy rankdbg to the node: {_no_space[0]}"
        raise NodeFailed(what, hint="a few MB are needed in /tmp, /dev/shm or /var/tmp")
    for kind in REST:
        need(kind)


def take(kind: str, content: str) -> None:
    """Unpack a tool. It is not requested again, even if there is no space for it."""
    from binascii import a2b_base64

    offer(each for each in os.environ.get(_OFFERED, "").split() if each != kind)
    try:
        directory = os.environ.get(_LANDED) or _make_directory()
        os.environ[_LANDED] = directory
        unpack(kind, a2b_base64(content), directory)
    except OSError as error:
        _no_space.extend([str(error)] if kind in REST else [])


def _make_directory() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="rankdbg-node-")


def unpack(kind: str, archive: bytes, directory: str) -> None:
    if kind in REST:
        _unpack_rest(archive, directory)
        return
    for place, content in _files(archive):
        path = os.path.join(directory, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        is_program = place.startswith("bin/")
        with open(os.open(path, _CREATE, 0o700 if is_program else 0o600), "wb") as file:
            file.write(content)
    if directory not in sys.path:
        sys.path.append(directory)
    sys.path_importer_cache.pop(directory, None)


def _files(bundle: bytes) -> Iterator[tuple[str, memoryview]]:
    """Of a bundle: a line with the places and sizes, and the contents, compressed together. (A zip
    would take 20 ms in every pod, to load the module that reads it.)"""
    from zlib import decompress

    data = decompress(bundle)
    start = data.index(b"\n") + 1
    contents = memoryview(data)
    for place, size in wire.decode(data[:start]).items():
        yield place, contents[start : start + size]
        start += size


def _unpack_rest(archive: bytes, directory: str) -> None:
    """Imported from its archive: writing and removing 150 files would take 0.1 s of CPU time.
    Only separate programs become files."""
    from zipimport import zipimporter

    path = os.path.join(directory, "rankdbg.zip")
    partial = f"{path}.partial"
    with open(partial, "xb") as file:
        file.write(archive)
    os.makedirs(os.path.join(directory, "bin"), exist_ok=True)
    programs = zipimporter(partial)
    for name in PROGRAMS:
        with open(os.path.join(directory, name), "xb") as file:
            file.write(programs.get_data(os.path.join(partial, name)))
    os.rename(partial, path)
