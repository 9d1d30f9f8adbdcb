"""The directory of agents: one for each user, with a socket and a card for each process.

Imports little of the standard library: the agent imports this module at its start.
"""

from __future__ import annotations

import os
import stat

# A Unix socket's address holds 107 bytes on Linux; macOS has 103.
LONGEST_ADDRESS = 100


class DirectoryRefused(Exception):
    """Why the directory cannot be used."""


def directory() -> str:
    """The agents' directory: RANKDBG_DIR, or one in /tmp for each user.

    Neither $TMPDIR nor $XDG_RUNTIME_DIR: a job and the shell in which the user runs rankdbg often
    differ in these (Slurm's private /tmp, ssh, cron).
    """
    named = os.environ.get("RANKDBG_DIR")
    return os.path.abspath(named) if named else f"/tmp/rankdbg-{os.geteuid()}"


def prepare(path: str) -> None:
    """Create the directory. Raises DirectoryRefused."""
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    except OSError as error:
        raise DirectoryRefused(f"cannot create the directory {path}: {error.strerror}") from None
    check(path)


def open_checked(path: str) -> int:
    """A descriptor of the checked directory, even if it is replaced meanwhile. Raises DirectoryRefused."""
    checked = check(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise DirectoryRefused(f"cannot use the directory {path}: {error.strerror}") from None
    opened = os.fstat(descriptor)
    if (opened.st_dev, opened.st_ino) != (checked.st_dev, checked.st_ino):
        os.close(descriptor)
        raise DirectoryRefused(f"{path} has been replaced by another directory")
    return descriptor


def check(path: str) -> os.stat_result:
    """Raise DirectoryRefused unless the directory belongs to this user and no other user can write to it.

    All users can write to /tmp: another user could have created the directory first, or a link of
    that name to a directory of this user.
    """
    ours = path == f"/tmp/rankdbg-{os.geteuid()}"
    try:
        # A link in RANKDBG_DIR is allowed: the user has chosen it.
        status = os.lstat(path) if ours else os.stat(path)
    except OSError as error:
        raise DirectoryRefused(f"cannot use the directory {path}: {error.strerror}") from None
    if ours and _is_own_directory(status) and stat.S_IMODE(status.st_mode) != 0o700:
        os.chmod(path, 0o700)
    else:
        check_status(path, status)
    return status


def check_status(path: str, status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise DirectoryRefused(f"{path} is not a directory")
    if status.st_uid != os.geteuid():
        raise DirectoryRefused(f"{path} belongs to another user (uid {status.st_uid})")
    if status.st_mode & 0o022:
        raise DirectoryRefused(f"other users can write to {path}; fix it with: chmod 700 {path}")


def _is_own_directory(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def root_of(pid: int) -> str:
    """The root of the files that a process sees: that of its container."""
    return f"/proc/{pid}/root"


def pid_of_root(path: str) -> int:
    """The process below whose root a path is; 0 for paths below ours."""
    match path.split("/", 4):
        case ["", "proc", pid, "root", _] if pid.isascii() and pid.isdigit():
            return int(pid)
    return 0


def file_stems(pid: int, namespace: str) -> tuple[str, str]:
    """The names that the files of an agent may have, without their endings: the second one if two
    PID namespaces share a directory (containers with one /tmp), and a process of the other
    namespace has the same pid."""
    return str(pid), f"{pid}-{namespace.strip('pid:[]')}"


def may_listen(pid: int, path: str) -> bool:
    """Whether this is the process whose agent listens on the socket of this path. A process of a PID
    namespace that is not visible here has the pid 0."""
    contained = pid_of_root(path)
    return pid == contained if contained else pid in (0, pid_in_name(path))


def pid_in_name(path: str) -> int:
    """The pid in the name of a card or socket, PID.json or PID-NAMESPACE.sock; 0 for other names."""
    number = os.path.basename(path).partition(".")[0].partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 20 else 0


class Address:
    """The address of a socket file for bind() and connect(), whatever the length of its path.

    A path that is too long is addressed through an open descriptor of its directory.
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
    """When a process started, in clock ticks after boot. With the pid, it identifies the process.

    Raises OSError if there is no such process.
    """
    return int(read_stat(pid)[1][19])


def read_stat(pid: int | str) -> tuple[str, list[str]]:
    """The name of a process, and the fields after it in /proc/PID/stat: state, parent, ...

    Raises OSError if there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name in parentheses may itself contain spaces and parentheses.
        before, _, after = file.read().decode(errors="replace").rpartition(")")
    return before.partition("(")[2], after.split()


def machine() -> str:
    """Equal for two nodes that see the same processes, even if their host names differ."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return f"{file.read().decode('ascii').strip()} {pid_namespace()}"
    except OSError:
        return ""


def pid_namespace() -> str:
    """In a shared directory, cards of another PID namespace belong to other processes."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
