"""The report that nsys writes of this rank: its path, and when it is complete.

nsys collects data in a file of its own. After the capture its importer converts that file to the
report, which is empty at first and then written piece by piece. Where no importer runs, nsys
leaves its data in place of the report, as .qdstrm.
"""

from __future__ import annotations

import os
from time import monotonic, sleep

from rankdbg.process import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Until nsys begins to write a report. RANKDBG_NSYS_WAIT overrides it.
WAIT_SECONDS = 30.0
# A report that is being written is waited for this many times as long.
WRITING_FACTOR = 10
# A report whose size is the same for this long, and which no process has open, is complete.
REST_SECONDS = 1.0
# In bytes. With less free disk space nsys cannot write a report.
LEAST_FREE = 1 << 16
REPORT, GATHERED = ".nsys-rep", ".qdstrm"
_POLL_SECONDS = 0.02


def wait_for(report: str, nsys: int) -> tuple[str, str]:
    """Until it is complete. Returns its path, which may be that of nsys's data; or ``, and why
    there is none. `nsys` is the process that writes it."""
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
        if not _is_alive(nsys):
            path, size = _find(report)
            return (path, "") if size > 0 else ("", f"nsys has exited without writing {report}")
        if size <= 0 and _is_full(os.path.dirname(report)):
            return "", f"the disk is full at {os.path.dirname(report)}"
        if now - began > wait_seconds() * (1 if size < 0 else WRITING_FACTOR):
            break
        sleep(_POLL_SECONDS)
    late = f"nsys has not written {report} in {now - began:.3g} s"
    return "", f"{late}; RANKDBG_NSYS_WAIT=SECONDS waits longer"


def wait_until_begun(report: str, nsys: int) -> None:
    """Until nsys begins to write: by then it has all data of this process."""
    while not _find(report)[0] and _is_alive(nsys):
        sleep(_POLL_SECONDS)


def advice(path: str) -> str:
    """What to do with data that nsys has not converted to a report; `` for a report."""
    if not path.endswith(GATHERED):
        return ""
    return f"nsys could not convert {path} to a report; QdstrmImporter of the same version can"


def wait_seconds() -> float:
    """How long a program that exits waits for nsys to begin a report."""
    text = os.environ.get("RANKDBG_NSYS_WAIT", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        return WAIT_SECONDS


def find_nsys() -> int:
    """The topmost process of nsys above this one: nsys starts its target through helpers, and runs
    on when those have exited."""
    found = above = os.getppid()
    name, _, parent = _status(above)
    while name.startswith("nsys"):
        found, above = above, parent
        name, _, parent = _status(above)
    return found


def _find(report: str) -> tuple[str, int]:
    """The file that exists, and its size; `` and -1 if there is none."""
    for path in (report, report.removesuffix(REPORT) + GATHERED):
        try:
            return path, os.stat(path).st_size
        except OSError:
            continue
    return "", -1


def _is_open(path: str) -> bool:
    """Whether a process of this user has the file open: then it is still being written."""
    path = os.path.realpath(path)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if any(target == path for target in _open_files(f"/proc/{pid}/fd")):
            return True
    return False


def _open_files(folder: str) -> Iterator[str]:
    try:
        numbers = os.listdir(folder)
    except OSError:  # it has exited, or belongs to another user
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
    """The name of a process, its state and its parent; `` for one that does not exist."""
    try:
        name, (state, parent, *_) = rendezvous.read_stat(pid)
    except OSError:
        return "", "", 0
    return name, state, int(parent)
