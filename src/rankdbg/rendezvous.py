"""Where agents and nodes meet: one directory for each user, a socket and a card a process.

Standard library only, and little of it: the agent imports this module.
"""

from __future__ import annotations

import os
import stat

# A Unix socket's address holds 107 bytes on Linux; macOS has 103.
LONGEST_ADDRESS = 100


class Refused(Exception):
    """The directory cannot be used, and why."""


def directory() -> str:
    """The agents' directory: RANKDBG_DIR, or one in /tmp for each user.

    Not $TMPDIR and not $XDG_RUNTIME_DIR: a job and the shell from which one looks
    at it often differ in these (Slurm's private /tmp, ssh, cron), and would miss
    each other.
    """
    named = os.environ.get("RANKDBG_DIR")
    return os.path.abspath(named) if named else f"/tmp/rankdbg-{os.geteuid()}"


def prepare(path: str) -> None:
    """Make the directory, or raise Refused with the reason."""
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot make the directory {path}: {error.strerror}") from None
    check(path)


def check(path: str) -> None:
    """Raise Refused unless the directory is this user's and nobody else can write there.

    /tmp is everybody's: another user could have made the directory first, or a link
    of that name to one of ours.
    """
    ours = path == f"/tmp/rankdbg-{os.geteuid()}"
    try:
        # A link that the user named in RANKDBG_DIR is the user's own wish.
        status = os.lstat(path) if ours else os.stat(path)
    except OSError as error:
        raise Refused(f"cannot use the directory {path}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode):
        raise Refused(f"{path} is not a directory")
    if status.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to another user (uid {status.st_uid})")
    if ours and stat.S_IMODE(status.st_mode) != 0o700:
        os.chmod(path, 0o700)
    elif status.st_mode & 0o022:
        raise Refused(f"other users can write into {path}; chmod 700 it")


class Address:
    """The address of a socket file for bind() and connect(), however long its path.

    A path that is too long is reached through an open descriptor of its directory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= LONGEST_ADDRESS:
            return self._path
        parent, name = os.path.split(self._path)
        self._directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._directory}/{name}"

    def __exit__(self, *_: object) -> None:
        if self._directory >= 0:
            os.close(self._directory)


def start_time(pid: int | str = "self") -> int:
    """When a process started, in clock ticks after boot: with its pid, who it is.

    Raises OSError if there is no such process.
    """
    return int(read_stat(pid)[1][19])


def read_stat(pid: int | str) -> tuple[str, list[str]]:
    """The name of a process, and what /proc/PID/stat says after it: state, parent, ...

    Raises OSError if there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name in parentheses may hold anything, also blanks and parentheses.
        before, _, after = file.read().decode(errors="replace").rpartition(")")
    return before.partition("(")[2], after.split()


def machine() -> str:
    """Two nodes that say the same see the same processes, whatever they are called."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return f"{file.read().decode('ascii').strip()} {pid_namespace()}"
    except OSError:
        return ""


def pid_namespace() -> str:
    """Cards of another namespace in a shared directory name other processes."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
