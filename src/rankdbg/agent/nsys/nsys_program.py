"""The nsys of this machine: its path, and how to start several at the same time."""

from __future__ import annotations

import os
from time import monotonic, sleep

from rankdbg.errors import RankdbgError
from rankdbg.process import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

# Directories of its packages; * is a version.
_INSTALLED = (
    *("/usr/local/cuda/bin", "/opt/nvidia/nsight-systems-cli/*/bin"),
    "/opt/nvidia/nsight-systems/*/bin",
)
# Set for the rank under nsys: the descriptor of the lock that serialises starts.
TURN = "RANKDBG_NSYS_TURN"
# Eight ranks take about ten seconds. A turn that is never ended delays others no longer than this.
TURN_SECONDS = 30.0


def find() -> str:
    """On PATH, else in a directory of its packages; `` if it is not found."""
    return _on_path("nsys") or _installed()


def out_of_reach() -> list[str]:
    """The words before nsys in a worker of Ray. When Ray stops, it kills the process groups that it
    has started, and with them an nsys that still writes its report. So nsys gets its own session."""
    setsid = _on_path("setsid")
    return [setsid, "--wait"] if setsid else []


def take_turn() -> dict[str, str]:
    """Several nsys that start at the same moment on a machine fail ("Agent launcher failed"), and
    so do their ranks. So they start one after the other. The rank inherits the lock, and ends the
    turn. Returns what to set in its environment."""
    try:
        import fcntl

        folder = rendezvous.directory()
        rendezvous.prepare(folder)
        path = os.path.join(folder, f"nsys-{os.uname().nodename}.lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except (ImportError, OSError, RankdbgError, rendezvous.DirectoryRefused):
        return {}
    deadline = monotonic() + TURN_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if monotonic() > deadline:
                os.close(descriptor)
                return {}
            sleep(0.02)
    os.set_inheritable(descriptor, True)
    return {TURN: f"{descriptor} {path}"}


def end_turn(environ: MutableMapping[str, str]) -> None:
    """In the rank. nsys has the lock open too, so closing it is not enough."""
    number, _, path = environ.pop(TURN, "").partition(" ")
    try:
        import fcntl

        descriptor = int(number)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
    except (ImportError, OSError, ValueError):  # nsys has not passed it on
        pass


def _on_path(program: str) -> str:
    """shutil.which(), without its imports."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder or ".", program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def _installed() -> str:
    """The newest in the directories of its packages."""
    found = []
    for place in _INSTALLED:
        above, star, below = place.partition("/*")
        try:
            versions = os.listdir(above) if star else [""]
        except OSError:
            continue
        found += [(_version(name), f"{above}/{name}".rstrip("/") + below) for name in versions]
    usable = [path for _, folder in sorted(found) if os.access(path := f"{folder}/nsys", os.X_OK)]
    return usable[-1] if usable else ""


def _version(name: str) -> list[int]:
    return [int(word) for word in name.split(".") if word.isdecimal()]
