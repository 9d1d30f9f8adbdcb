"""Machines that ssh reaches, with the user's own configuration, keys and jump hosts.

ssh:gpu-1,gpu-2      ssh:me@gpu-1:2222      ssh:@hosts.txt (a host a line)
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from rankdbg.clusters import NO_OPTIONS, Options
from rankdbg.clusters.channel import ProcessChannel
from rankdbg.clusters.sending import REMOTE, landing_opening, shell_line
from rankdbg.errors import BadInput

# Nobody is there to answer a question for a password; a line that is dead is noticed.
_COMMAND = (
    *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
_HOST = re.compile(r"(?P<name>[^\s:,-][^\s:,]*|\[[0-9A-Fa-f:]+\])(?::(?P<port>[0-9]+))?")


class Ssh:
    origin = ""

    def __init__(self, rest: str, options: Options = NO_OPTIONS) -> None:
        self.target = f"ssh:{rest}"
        self._python = options.python
        self._hosts = {text: _words(text) for text in _listed(rest)}

    def nodes(self) -> list[str]:
        return list(self._hosts)

    def open(self, node: str) -> ProcessChannel:
        line = f"exec sh -c {shlex.quote(shell_line(self._python))}"
        command = [*_COMMAND, *self._hosts[node], line]
        return ProcessChannel(node, command, landing_opening(node, REMOTE))


def _listed(rest: str) -> list[str]:
    if rest.startswith("@"):
        hosts = _from_file(Path(rest[1:]).expanduser())
    else:
        hosts = [host.strip() for host in rest.split(",")]
    if not any(hosts):
        raise BadInput("which hosts?", hint="rankdbg ps -t ssh:gpu-1,gpu-2   (or -t ssh:@FILE)")
    if "" in hosts:
        raise BadInput(f"a host is missing between two commas in ssh:{rest}")
    return list(dict.fromkeys(hosts))


def _from_file(path: Path) -> list[str]:
    """The first word of each line: a list of hosts for mpirun goes on with `slots=8`."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"cannot read the hosts in {path}: {why}") from None
    words = [line.partition("#")[0].split() for line in lines]
    hosts = [first for first, *_ in filter(None, words)]
    if not hosts:
        raise BadInput(f"{path} names no host", hint="one host on each line")
    return hosts


def _words(text: str) -> list[str]:
    """me@gpu-1:2222 -> the words for ssh."""
    match = _HOST.fullmatch(text)
    if match is None:
        hint = "a host is NAME, USER@NAME or NAME:PORT"
        raise BadInput(f"{text!r} is not a host for ssh", hint=hint)
    name = match["name"].strip("[]")
    return ["-p", match["port"], "--", name] if match["port"] else ["--", name]
