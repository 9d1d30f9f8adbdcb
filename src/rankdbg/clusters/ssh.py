"""Machines reached with ssh, with the user's configuration, keys and jump hosts.

ssh:gpu-1,gpu-2      ssh:me@gpu-1:2222      ssh:@hosts.txt (a host a line)
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from rankdbg.clusters import NO_OPTIONS, Cluster, Options
from rankdbg.clusters.transport.channel import CONNECT_SECONDS, ProcessChannel
from rankdbg.clusters.transport.sending import (
    REMOTE,
    give,
    landing_opening,
    program_text,
    shell_line,
)
from rankdbg.errors import BadInput

# Never prompt for a password; detect a dead connection.
_COMMAND = (
    *("ssh", "-T", "-o", "BatchMode=yes"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
LOGIN_SECONDS = 10.0
_HOST = re.compile(r"(?P<name>[^\s:,-][^\s:,]*|\[[0-9A-Fa-f:]+\])(?::(?P<port>[0-9]+))?")


class Ssh(Cluster):
    def __init__(self, rest: str, options: Options = NO_OPTIONS) -> None:
        self.target = f"ssh:{rest}"
        self._python = options.python
        self._connect_seconds = options.tolerance(CONNECT_SECONDS)
        self._login = ("-o", f"ConnectTimeout={options.tolerance(LOGIN_SECONDS):.0f}")
        self._hosts = {text: _words(text) for text in _listed(rest)}
        self._entered: set[str] = set()  # nodes

    def nodes(self) -> list[str]:
        return list(self._hosts)

    def open(self, node: str) -> ProcessChannel:
        line = f"exec sh -c {shlex.quote(shell_line(self._python, program_follows=True))}"
        command = [*_COMMAND, *self._login, *self._hosts[node], line]
        scope = {**REMOTE, "there": self.command_prefix(node)}
        first_time = node not in self._entered
        self._entered.add(node)
        opening = landing_opening(node, scope, lazy=True, guess=first_time)
        return ProcessChannel(
            node,
            command,
            opening,
            preamble=program_text(),
            give=give,
            connect_seconds=self._connect_seconds,
        )

    def command_prefix(self, node: str) -> str:
        """What a user types before a command to run it on this node."""
        words = [word for word in self._hosts[node] if word != "--"]
        return f"{shlex.join(['ssh', *words])} "


def _listed(rest: str) -> list[str]:
    if rest.startswith("@"):
        hosts = _from_file(Path(rest[1:]).expanduser())
    else:
        hosts = [host.strip() for host in rest.split(",")]
    if not any(hosts):
        raise BadInput(
            "ssh: names no hosts", hint="rankdbg ps -t ssh:gpu-1,gpu-2   (or -t ssh:@FILE)"
        )
    if "" in hosts:
        raise BadInput(f"a host is missing between two commas in ssh:{rest}")
    return list(dict.fromkeys(hosts))


def _from_file(path: Path) -> list[str]:
    """The first word of each line: a hostfile for mpirun continues with `slots=8`."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"cannot read the hosts in {path}: {why}") from None
    words = [line.partition("#")[0].split() for line in lines]
    hosts = [first for first, *_ in filter(None, words)]
    if not hosts:
        raise BadInput(f"{path} contains no hosts", hint="write one host per line")
    return hosts


def _words(text: str) -> list[str]:
    """me@gpu-1:2222 -> the words for ssh."""
    match = _HOST.fullmatch(text)
    if match is None:
        what = f"invalid ssh host {text!r}: expected NAME, USER@NAME or NAME:PORT"
        raise BadInput(what)
    name = match["name"].strip("[]")
    return ["-p", match["port"], "--", name] if match["port"] else ["--", name]
