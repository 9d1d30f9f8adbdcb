"""mounts.py: where a file's file system is mounted, and who serves it, without asking it."""

from __future__ import annotations

import os
from pathlib import Path

from rankdbg.node.machine import mounts
from rankdbg.node.machine.mounts import Mount, Mounts


def known(*points: str) -> Mounts:
    """Of this process, the later ones mounted later."""
    found = Mounts()
    kinds = {"/": "ext4"}
    rows = [
        Mount(str(n), f"0:{n}", p, kinds.get(p, "nfs4"), "filer:/") for n, p in enumerate(points)
    ]
    found._known[os.readlink("/proc/self/ns/mnt")] = rows[::-1]
    return found


def test_innermost_mount() -> None:
    """By whole parts of a path; of two at one point the later one."""
    found = known("/", "/data", "/data/shared", "/data")
    places = {
        path: found.at(os.getpid(), path) for path in ("/data/a", "/data/shared/a", "/database")
    }
    idents = {path: mount.ident for path, mount in places.items() if mount}
    assert idents == {"/data/a": "3", "/data/shared/a": "2", "/database": "0"}
    assert found.is_remote(os.getpid(), "/data/../data/x")
    assert not found.is_remote(os.getpid(), "/data/../x")


def test_path_that_is_relative(tmp_path: Path) -> None:
    """To where the process is."""
    here = known("/", os.getcwd()).at(os.getpid(), "shard")
    assert here is not None
    assert here.point == os.getcwd()


def test_mount_of_an_open_file(tmp_path: Path) -> None:
    """The kernel names it by number, and it is the one that its path leads to."""
    found = Mounts()
    with (tmp_path / "file").open("w") as file:
        by_number = found.of_descriptor(os.getpid(), file.fileno())
    assert by_number is not None
    assert by_number == found.at(os.getpid(), str(tmp_path / "file"))


def test_process_that_is_gone() -> None:
    assert Mounts().at(2**22 + 1, "/data") is None
    assert Mounts().of_descriptor(2**22 + 1, 3) is None


def test_only_file_systems_in_user_space_have_a_server_here() -> None:
    assert mounts.servers(Mount("1", "0:46", "/data", "nfs4", "filer:/export")) == []
