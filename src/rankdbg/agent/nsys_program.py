"""The nsys of this machine: where it is, and how to start it beside others."""

from __future__ import annotations

import os
from time import monotonic, sleep

from rankdbg import rendezvous
from rankdbg.errors import RankdbgError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

# Where its packages put nsys, * being a version.
_INSTALLED = (
    *("/usr/local/cuda/bin", "/opt/nvidia/nsight-systems-cli/*/bin"),
    "/opt/nvidia/nsight-systems/*/bin",
)
# Set for the rank under nsys: the descriptor that holds its turn to start.
TURN = "RANKDBG_NSYS_TURN"
# Eight ranks take some ten seconds; and a turn that nobody ends holds others up for no longer.
TURN_SECONDS = 30.0


def find() -> str:
    """On PATH, else where its packages put it; `` if it is nowhere."""
    return _on_path("nsys") or _installed()


def out_of_reach() -> list[str]:
    """What to put before nsys in a worker of Ray's: when Ray stops, it kills the process groups
    that it has started, and with them an nsys that still writes its report. So nsys gets a session
    of its own."""
    setsid = _on_path("setsid")
    return [setsid, "--wait"] if setsid else []


def take_turn() -> dict[str, str]:
    """Several nsys that start at the same moment on a machine fail ("Agent launcher failed"), and
    their ranks with them: so one starts after the other. The rank, which inherits the lock, ends
    the turn. What to set in its environment."""
    try:
        import fcntl

        folder = rendezvous.directory()
        rendezvous.prepare(folder)
        path = os.path.join(folder, f"nsys-{os.uname().nodename}.lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except (ImportError, OSError, RankdbgError):
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
    """In the rank. nsys holds the lock too, so that closing it does not suffice."""
    number, _, path = environ.pop(TURN, "").partition(" ")
    try:
        import fcntl

        descriptor = int(number)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
    except (ImportError, OSError, ValueError):  # nsys has not handed it on
        pass


def _on_path(program: str) -> str:
    """shutil.which(), without its imports."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder or ".", program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def _installed() -> str:
    """Not on PATH, but where its packages put it: the newest."""
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
