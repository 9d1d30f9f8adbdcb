"""Where a process listens, as the kernel tells."""

from __future__ import annotations

import os
import socket

from rankdbg.node.machine import addresses, processes


def test_where_a_process_listens() -> None:
    """Not where another one does; and a connection that has been made is none without an answer."""
    us = processes.read_stat(os.getpid())
    parent = processes.read_stat(os.getppid())
    assert us is not None and parent is not None
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with socket.create_connection(server.getsockname()):
            found = addresses.look([(us.pid, us.start), (parent.pid, parent.start)])
    assert address in found[us.pid, us.start]["listening"]
    assert address not in found[parent.pid, parent.start]["listening"]
    assert found[us.pid, us.start]["unanswered"] == []


def test_a_process_that_is_gone() -> None:
    assert addresses.look([(os.getpid(), 1)]) == {}
