"""The token that an editor must have to attach through a port.

It is stored in a file that only this user can read, so that a configuration with the token
stays valid for later `rankdbg dap` runs. It is not passed on a command line: all users of a
machine can read those.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

from rankdbg.errors import BadInput
from rankdbg.process import rendezvous

VARIABLE = "RANKDBG_DAP_TOKEN"
LONGEST_TOKEN = 1000


def path() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(os.path.abspath(state), "rankdbg", "dap-token")


def new() -> str:
    return secrets.token_hex(16)


def given(option: str) -> str:
    """The token that the user has set; empty if there is none."""
    return option or os.environ.get(VARIABLE, "")


def kept() -> str:
    """The stored token; it is created if needed. Raises BadInput if it cannot be read or
    stored."""
    file = path()
    try:
        rendezvous.prepare(os.path.dirname(file))
        with suppress(FileNotFoundError):
            return _read(file)
        _make(file)
        return _read(file)
    except (OSError, rendezvous.DirectoryRefused, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = f"fix or remove the file, or set {VARIABLE}"
        raise BadInput(f"cannot use the token in {file}: {why}", hint=hint) from None


def _read(file: str) -> str:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise rendezvous.DirectoryRefused("it is not a file")
        if status.st_uid != os.geteuid():
            raise rendezvous.DirectoryRefused(f"it belongs to another user (uid {status.st_uid})")
        if status.st_mode & 0o077:
            raise rendezvous.DirectoryRefused("other users can read it")
        token = opened.read(LONGEST_TOKEN).decode("ascii").strip()
    if not token:
        raise rendezvous.DirectoryRefused("it is empty")
    return token


def _make(file: str) -> None:
    """Atomically: if `rankdbg dap` and `rankdbg vscode` start at the same time, both use the
    token that was written first."""
    draft = f"{file}.{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w") as opened:
            opened.write(f"{new()}\n")
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        os.unlink(draft)
