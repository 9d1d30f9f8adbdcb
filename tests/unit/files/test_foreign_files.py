"""Files of other people's making: only regular ones are opened, and no more is read than is
allowed."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from rankdbg.files.foreign_files import copy_pipe, data_ranges, open_file, read_bytes


def test_only_regular_files(tmp_path: Path) -> None:
    """A pipe, a device, a directory, a socket and a name that is none are refused, at once."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        (tmp_path / "zero").symlink_to("/dev/zero")
        for name in ("pipe", "zero", "socket", ".", "nowhere", "a\0b"):
            with pytest.raises(OSError):
                open_file(f"{tmp_path}/{name}")
            with pytest.raises(OSError):
                read_bytes(f"{tmp_path}/{name}", 100)


def test_no_more_than_is_allowed(tmp_path: Path) -> None:
    """Of a file by its size, of a pipe by what has come."""
    (tmp_path / "file").write_bytes(bytes(2 << 20))
    assert len(read_bytes(tmp_path / "file", 2 << 20)) == 2 << 20
    with pytest.raises(OSError, match="larger than 1 MiB"):
        read_bytes(tmp_path / "file", 1 << 20)
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        place = f"/dev/fd/{endless.stdout.fileno()}"
        with pytest.raises(OSError, match="larger than 1 MiB"):
            read_bytes(place, 1 << 20, named=True)
        with (tmp_path / "copy").open("wb") as copy, pytest.raises(OSError, match="larger"):
            copy_pipe(place, copy, 1 << 20)
        endless.kill()
    assert (tmp_path / "copy").stat().st_size == 1 << 20


def test_a_pipe_whose_writer_has_ended(tmp_path: Path) -> None:
    """What is still in it is read; one that is empty is at its end."""
    read, write = os.pipe()
    os.write(write, b"left")
    os.close(write)
    assert read_bytes(f"/dev/fd/{read}", 100, named=True) == b"left"
    assert read_bytes(f"/dev/fd/{read}", 100, named=True) == b""
    os.close(read)


def test_holes(tmp_path: Path) -> None:
    """Where something was written, and nothing else; a file without holes is one range."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 40)
        file.write(b"end")
        file.truncate(1 << 41)
    with open_file(path) as file:
        ranges = data_ranges(file)
    assert [begin for begin, _ in ranges] == [0, 1 << 40]
    assert all(end - begin <= 1 << 20 for begin, end in ranges)
    path.write_bytes(b"x" * 10_000)
    with open_file(path) as file:
        assert data_ranges(file) == [(0, 10_000)]
    path.write_bytes(b"")
    with open_file(path) as file:
        assert data_ranges(file) == []
