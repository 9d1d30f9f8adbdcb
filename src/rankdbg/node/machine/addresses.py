"""At which addresses processes listen, and on which connections they get no answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rankdbg.node.machine import descriptors, processes, tcp


def look(keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], dict[str, Any]]:
    """By (pid, start); without those whose open files cannot be read."""
    tables: dict[str, tcp.TcpTable] = {}
    found = {}
    for pid, start in keys:
        if not processes.is_alive(pid, start):
            continue
        network = tcp.network(pid)
        if network not in tables:
            tables[network] = tcp.TcpTable(pid)
        try:
            sockets = {target for _, target in descriptors.targets(pid)}
        except OSError:
            continue
        found[pid, start] = {
            "unanswered": sorted(
                (tcp.address_text(each.local), tcp.address_text(each.remote))
                for each in _its(tables[network].without_answer, sockets)
            ),
            "listening": sorted(
                {tcp.address_text(e.local) for e in _its(tables[network].listening, sockets)}
            ),
        }
    return found


def _its(connections: Sequence[tcp.TcpConnection], sockets: set[str]) -> list[tcp.TcpConnection]:
    return [each for each in connections if f"socket:[{each.inode}]" in sockets]
