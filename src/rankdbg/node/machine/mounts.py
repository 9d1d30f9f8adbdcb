"""Where file systems are mounted, and who serves them: from /proc alone, since a file system that does
not answer would block whoever asks it."""

from __future__ import annotations

import os
from typing import NamedTuple

from rankdbg.node.machine import descriptors, processes

# Those with a server, which may not answer.
_REMOTE = (
    "nfs", "cifs", "smb", "lustre", "ceph", "gpfs", "beegfs", "fuse", "9p", "afs", "gluster", "weka",
    "virtiofs", "ocfs2", "gfs2", "pvfs", "orangefs", "panfs",
)  # fmt: skip


class Mount(NamedTuple):
    ident: str
    device: str  # major:minor
    point: str
    kind: str
    source: str

    @property
    def is_remote(self) -> bool:
        return self.kind.startswith(_REMOTE)


class Mounts:
    """Of all processes, each mount namespace read once."""

    def __init__(self) -> None:
        self._known: dict[str, list[Mount]] = {}

    def of(self, pid: int) -> list[Mount]:
        try:
            namespace = os.readlink(f"/proc/{pid}/ns/mnt")
        except OSError:
            namespace = ""
        if namespace not in self._known:
            self._known[namespace] = _read(pid)
        return self._known[namespace]

    def at(self, pid: int, path: str) -> Mount | None:
        """By its text: to resolve a link would ask the file system."""
        if not path.startswith("/"):
            try:
                path = os.path.join(os.readlink(f"/proc/{pid}/cwd"), path)
            except OSError:
                return None
        path = os.path.normpath(path)
        covering = [mount for mount in self.of(pid) if _is_below(path, mount.point)]
        # Of two at one point, the later one is seen.
        return max(covering, key=lambda mount: len(mount.point), default=None)

    def of_descriptor(self, pid: int, number: int | str) -> Mount | None:
        ident = dict(descriptors.info(pid, number)).get("mnt_id")
        return next((mount for mount in self.of(pid) if mount.ident == ident), None)

    def is_remote(self, pid: int, path: str) -> bool:
        mount = self.at(pid, path)
        return mount is not None and mount.is_remote


def servers(mount: Mount) -> list[int]:
    """The processes of this machine that serve it, of a file system in user space."""
    if not mount.kind.startswith("fuse"):
        return []
    connection = mount.device.rpartition(":")[2]
    found = []
    for pid in processes.all_pids():
        try:
            open_here = [n for n, target in descriptors.targets(pid) if target == "/dev/fuse"]
        except OSError:
            continue  # another user's
        infos = [dict(descriptors.info(pid, number)) for number in open_here]
        if any(info.get("fuse_connection") == connection for info in infos):
            found.append(pid)
    return found


def _read(pid: int) -> list[Mount]:
    try:
        with open(f"/proc/{pid}/mountinfo") as file:
            rows = [line.split() for line in file]
    except OSError:
        return []
    # 137 29 0:46 / /mnt rw,relatime shared:1 - fuse.sshfs host:/export rw,user_id=0
    found = []
    for row in rows:
        if "-" in row[6:] and len(row) > row.index("-", 6) + 2:
            after = row.index("-", 6)
            point, kind, source = (_unescaped(row[n]) for n in (4, after + 1, after + 2))
            found.append(Mount(row[0], row[2], point, kind, source))
    return found[::-1]


def _unescaped(text: str) -> str:
    for code, letter in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        text = text.replace(f"\\{code}", letter)
    return text


def _is_below(path: str, point: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/")
