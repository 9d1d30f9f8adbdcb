"""What NCCL itself knows of its communicators, from the RAS thread of a process (NCCL 2.24 and
later), which answers on a port of its own whatever the process waits for.

The thread of one process on each node listens, and answers for all processes of the job. JSON is
known since NCCL 2.28.7; before that there is a text for people, which names outliers only.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from rankdbg.node.machine import descriptors, processes, tcp

_PORT = 28028

# Seconds that the RAS threads give a process that does not answer them.
_PATIENCE = 2
_QUESTIONS = f"TIMEOUT {_PATIENCE}\nSET FORMAT json\nVERBOSE STATUS\n".encode()
_MOST_BYTES = 64 << 20

# Of the text: the number of a group of communicators and their size, a communicator of a group,
# and the counts of its ranks.
_GROUP = re.compile(r"\s*(\d+)\s+\d+\s+\d+\s+\S+\s+(\d+)\s+\d+\s+[A-Z]")
_COMMUNICATOR = re.compile(r"#(\d+)-\d+ \((\w+)\) ([A-Z]+)")
_COUNTED = re.compile(r"Communicator ranks have different (\w+) operation counts")
_SEVERAL = re.compile(r"\d+ ranks have (?:launched up to operation (\d+)|not launched any)")
_RANK = re.compile(
    r"Rank (\d+)(?: has (?:launched up to operation (\d+)|(not) launched any operations))?"
    r" -- GPU \S+ managed by process (\d+) on node (\S+)"
)


def ask(pids: Iterable[int], deadline: float) -> dict[int, list[dict[str, Any]]]:
    """The communicators, by the process that was asked: the one of these that listens."""
    wanted = [*pids]
    environments, _ = processes.read_all({*wanted}, processes.environment)
    listening: dict[str, dict[int, set[str]]] = {}  # by network: ports and their sockets
    for pid in wanted:
        network = tcp.network(pid)
        if network not in listening:
            listening[network] = _listening(pid)
        port = _port_of(environments.get(pid, {}))
        if _has_one_of(pid, listening[network].get(port, set())):
            return {pid: _communicators(_talk(port, deadline))}
    return {}


def _listening(pid: int) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for each in tcp.connections(pid):
        if each.state == tcp.LISTENS:
            found.setdefault(each.port, set()).add(each.inode)
    return found


def _has_one_of(pid: int, inodes: Collection[str]) -> bool:
    try:
        open_here = {target for _, target in descriptors.targets(pid)} if inodes else set()
    except OSError:
        return False
    return any(f"socket:[{inode}]" in open_here for inode in inodes)


def _port_of(environment: Mapping[str, str]) -> int:
    port = environment.get("NCCL_RAS_ADDR", "").rpartition(":")[2]
    return int(port) if port.isdigit() else _PORT


def _talk(port: int, deadline: float) -> str:
    """Everything that it answers; empty if it does not."""
    said = bytearray()
    try:
        limit = max(0.1, deadline - time.monotonic())
        with socket.create_connection(("localhost", port), timeout=limit) as connection:
            connection.sendall(_QUESTIONS)
            while len(said) < _MOST_BYTES and (piece := connection.recv(1 << 16)):
                said += piece
                connection.settimeout(max(0.1, deadline - time.monotonic()))
    except OSError:
        pass  # what has come may be enough
    return said.decode("utf-8", "replace")


def _communicators(said: str) -> list[dict[str, Any]]:
    begin, end = said.find("{"), said.rfind("}")
    if 0 <= begin < end:
        try:
            return _from_json(json.loads(said[begin : end + 1]))
        except (ValueError, TypeError, KeyError, AttributeError):
            return []
    return _from_text(said)


# --- JSON -------------------------------------------------------------------------------------


def _from_json(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": each["hash"].removeprefix("0x"),
            "size": each["size"],
            "ranks": [_member(rank) for rank in each["ranks"]],
        }
        for each in document["communicators"]
    ]


def _member(rank: Mapping[str, Any]) -> dict[str, Any]:
    names = {"rank": "rank", "host": "host", "pid": "pid", "launched": "collective_counts"}
    return {name: rank[theirs] for name, theirs in names.items()}


# --- text -------------------------------------------------------------------------------------


def _from_text(said: str) -> list[dict[str, Any]]:
    """Communicators whose ranks have different counts. Only the fewer are named: `most` is the
    count of the others."""
    sizes = {match[1]: int(match[2]) for match in map(_GROUP.match, said.splitlines()) if match}
    found: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] | None = None
    operation = ""
    count = 0  # of the ranks listed next
    for line in said.splitlines():
        if match := _COMMUNICATOR.search(line):
            size = sizes.get(match[1], 0)
            new: dict[str, Any] = {"name": match[2], "size": size, "ranks": [], "most": {}}
            current = found.setdefault(match[2], new) if match[3] == "MISMATCH" else None
            operation = ""
        elif match := _COUNTED.search(line):
            operation = match[1]
        elif current is None or not operation:
            continue
        elif match := _SEVERAL.search(line):
            count = int(match[1] or 0)
            current["most"][operation] = max(current["most"].get(operation, 0), count)
        elif match := _RANK.search(line):
            launched = 0 if match[3] else int(match[2] or count)
            current["most"][operation] = max(current["most"].get(operation, 0), launched)
            member = {"rank": int(match[1]), "host": match[5], "pid": int(match[4])}
            current["ranks"].append({**member, "launched": {operation: launched}})
    return [*found.values()]
