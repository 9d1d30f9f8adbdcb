"""What nsys writes of this rank, and when that is whole.

nsys gathers in a file of its own, and at the end of a capture has its importer make the report of
it: empty for as long as that reads, then written piece by piece. Where no importer runs, it leaves
what it has gathered in the report's place, as .qdstrm.
"""

from __future__ import annotations

import os
from time import monotonic, sleep

from rankdbg import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# For a report to begin to be written; RANKDBG_NSYS_WAIT is the user's word.
WAIT_SECONDS = 30.0
# One that is being written is waited for so many times as long.
MORE_PATIENCE = 10
# A report whose size is the same for so long, and which nobody has open, is whole.
REST_SECONDS = 1.0
# Where this much is not free, nothing more will come.
LEAST_FREE = 1 << 16
REPORT, GATHERED = ".nsys-rep", ".qdstrm"
_LOOK_EVERY = 0.02


def wait_for(report: str, nsys: int) -> tuple[str, str]:
    """Until it is whole: its path, which may be that of what nsys has gathered; or ``, and why
    it is not there. `nsys` is the process that writes it."""
    began = monotonic()
    path, size, since = "", -1, began
    while True:
        now = monotonic()
        seen = _find(report)
        if seen != (path, size):
            (path, size), since = seen, now
        elif size > 0 and now - since > REST_SECONDS:
            if not _is_open(path):
                return path, ""
            since = now
        if not _is_alive(nsys):  # whatever it has written
            path, size = _find(report)
            return (path, "") if size > 0 else ("", f"nsys has ended, and has not written {report}")
        if size <= 0 and _is_full(os.path.dirname(report)):
            return "", f"the disk is full at {os.path.dirname(report)}"
        if now - began > wait_seconds() * (1 if size < 0 else MORE_PATIENCE):
            break
        sleep(_LOOK_EVERY)
    late = f"nsys has not written {report} in {now - began:.3g} s"
    return "", f"{late}; RANKDBG_NSYS_WAIT=SECONDS waits longer"


def wait_until_begun(report: str, nsys: int) -> None:
    """Until nsys has all that it will get: then it begins to write."""
    while not _find(report)[0] and _is_alive(nsys):
        sleep(_LOOK_EVERY)


def advice(path: str) -> str:
    """What to do with what is no report yet; `` for one that is."""
    if not path.endswith(GATHERED):
        return ""
    return f"nsys could not make a report of {path}; QdstrmImporter of its version makes one"


def wait_seconds() -> float:
    """For a report to begin, at the end of a program."""
    text = os.environ.get("RANKDBG_NSYS_WAIT", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        return WAIT_SECONDS


def find_nsys() -> int:
    """The uppermost of the processes that nsys has put above this one: it starts its targets
    through others, and goes on when those have ended."""
    found = above = os.getppid()
    name, _, parent = _status(above)
    while name.startswith("nsys"):
        found, above = above, parent
        name, _, parent = _status(above)
    return found


def _find(report: str) -> tuple[str, int]:
    """Which file there is, and its size; `` and -1 for none."""
    for path in (report, report.removesuffix(REPORT) + GATHERED):
        try:
            return path, os.stat(path).st_size
        except OSError:
            continue
    return "", -1


def _is_open(path: str) -> bool:
    """By anybody, who then still writes to it; a process of another user's cannot be seen."""
    path = os.path.realpath(path)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if any(target == path for target in _open_files(f"/proc/{pid}/fd")):
            return True
    return False


def _open_files(folder: str) -> Iterator[str]:
    try:
        numbers = os.listdir(folder)
    except OSError:  # it has ended, or is another user's
        return
    for number in numbers:
        try:
            yield os.readlink(f"{folder}/{number}")
        except OSError:  # closed meanwhile
            continue


def _is_full(directory: str) -> bool:
    try:
        there = os.statvfs(directory)
    except OSError:
        return False
    return there.f_bavail * there.f_frsize < LEAST_FREE


def _is_alive(pid: int) -> bool:
    return _status(pid)[1] not in ("", "Z", "X")


def _status(pid: int) -> tuple[str, str, int]:
    """The name of a process, its state and its parent; `` for one that is not there."""
    try:
        name, (state, parent, *_) = rendezvous.read_stat(pid)
    except OSError:
        return "", "", 0
    return name, state, int(parent)
