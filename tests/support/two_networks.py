"""Two hosts of this machine, namespaces with two networks between them: over the first they meet, and
what is sent over the second may be lost, as where a firewall or a wrong interface is in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

MEETING, DATA = "10.201.1", "10.201.2"
_NOBODY = "02:00:00:00:00:99"  # the card of no host
_UNTIL_STDIN_ENDS = "echo ready && cat >/dev/null"


def missing() -> str:
    """What this machine lacks for it, or ``."""
    for command in ("unshare", "nsenter", "ip"):
        if shutil.which(command) is None:
            return f"needs the command {command}"
    possible = subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True)
    return "" if possible.returncode == 0 else "needs the right to make namespaces"


@contextmanager
def two_hosts(loses: bool) -> Iterator[list[list[str]]]:
    """What to put before a command to run it on the first, and on the second. `loses`: over the
    second network, the interface `data`, nothing arrives from the beginning."""
    spaces: list[subprocess.Popen[str]] = []
    try:
        for _ in range(2):
            space = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", _UNTIL_STDIN_ENDS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            spaces.append(space)
            assert space.stdout is not None and space.stdout.readline() == "ready\n"
        enter = [["nsenter", "-t", str(space.pid), "--net"] for space in spaces]
        _connect(enter, spaces[1].pid)
        if loses:
            lose(enter)
        yield enter
    finally:
        for space in spaces:
            space.communicate()


def lose(hosts: list[list[str]]) -> None:
    """From now on nothing arrives over the second network."""
    for host, enter in enumerate(hosts):
        _run(enter, f"ip neighbour replace {DATA}.{2 - host} lladdr {_NOBODY} dev data")


def _connect(enter: list[list[str]], other: int) -> None:
    for name, network in (("meeting", MEETING), ("data", DATA)):
        _run(enter[0], f"ip link add {name} type veth peer name {name} netns {other}")
        for host, words in enumerate(enter):
            _run(
                words, f"ip address add {network}.{host + 1}/24 dev {name} && ip link set {name} up"
            )
    for words in enter:
        # A rank that gets no answer is looked at before it gives up.
        _run(words, "ip link set lo up && echo 30 > /proc/sys/net/ipv4/tcp_syn_retries")


def _run(enter: list[str], script: str) -> None:
    subprocess.run([*enter, "sh", "-c", script], check=True, env={**os.environ})
